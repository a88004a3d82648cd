"""What others reached on the workloads of bench/magis.py, in percent of extra time; ratios are of the step's peak bytes.

MAGIS: its measured points on an RTX 3090, read off figures 10 to 12 of the paper (about half a point off at most). Where a figure has
no point near a ratio, there is none here. PROTOTYPE: the best of an hour's searches by several methods over the same graphs, device
profile and program order as here: micro-batches in any number of parts, parts of the loss alone, nested ones, with recompute. Its
bytes are those of a peak, without addresses. The least ratios are for 10 and 5 percent of extra time.
"""

# By workload and ratio: extra time, and the ratio where that was measured.
MAGIS = {
    "resnet50": {0.8: (1.6, 0.76), 0.6: (3.7, 0.64), 0.5: (7.9, 0.51), 0.4: (13.8, 0.34), 0.3: (15.5, 0.32), 0.2: (23.8, 0.20)},
    "unet": {0.5: (3.1, 0.51), 0.3: (6.8, 0.26), 0.2: (13.2, 0.14)},
    "bert": {0.8: (2.3, 0.80), 0.6: (7.6, 0.59), 0.5: (9.1, 0.47), 0.3: (15.2, 0.30), 0.2: (21.6, 0.17)},
    "vit": {0.8: (4.7, 0.83), 0.6: (5.2, 0.61), 0.4: (9.8, 0.37), 0.3: (14.2, 0.25)},
    "unetpp": {0.8: (2.0, 0.80), 0.4: (3.9, 0.40)},
    "gptneo": {0.8: (1.9, 0.79), 0.6: (6.3, 0.64), 0.5: (7.3, 0.52), 0.4: (10.0, 0.41), 0.3: (15.8, 0.31), 0.2: (58.3, 0.23)},
    "btlm": {0.8: (3.1, 0.80), 0.4: (8.0, 0.40)},
}
PROTOTYPE = {
    "resnet50": {0.8: 1.9, 0.6: 2.2, 0.5: 3.6, 0.4: 4.8, 0.3: 7.6, 0.2: 15.5},
    "unet": {0.8: 0.1, 0.6: 0.2, 0.5: 0.2, 0.4: 0.4, 0.3: 0.7, 0.2: 1.5},
    "bert": {0.8: 0.7, 0.6: 0.8, 0.5: 1.2, 0.4: 1.7, 0.3: 2.5, 0.2: 5.9},
    "vit": {0.8: 1.0, 0.6: 1.3, 0.5: 1.8, 0.4: 2.9, 0.3: 4.6, 0.2: 10.4},
    "gptneo": {0.4: 0.5, 0.3: 1.1, 0.2: 5.0},
    "btlm": {0.3: 0.7, 0.2: 6.7},
    "gpt2": {0.8: 0.1, 0.6: 1.9, 0.5: 2.9, 0.4: 5.5, 0.3: 12.9, 0.2: 21.2},
    "bert_vocabulary": {0.8: 0.3, 0.6: 2.3, 0.5: 4.5, 0.4: 9.4, 0.3: 15.0, 0.2: 22.4},
    "resnet50_bn": {0.8: 1.9, 0.6: 6.0, 0.5: 8.8, 0.4: 12.3, 0.3: 17.4, 0.2: 29.0},
    "unet_bn": {0.8: 1.6, 0.6: 4.6, 0.5: 6.3, 0.4: 9.2, 0.3: 18.9},
}
# The least ratio within 10 and within 5 percent of extra time.
MAGIS_LEAST = {"resnet50": (0.511, 0.638), "bert": (0.468, 0.699), "vit": (0.374, 0.612), "unet": (0.256, 0.498),
               "unetpp": (0.129, 0.258), "gptneo": (0.416, 0.640), "btlm": (0.263, 0.431)}
PROTOTYPE_LEAST = {"resnet50": (0.268, 0.400), "bert": (0.143, 0.222), "vit": (0.203, 0.288), "unet": (0.062, 0.091),
                   "unetpp": (0.057, 0.061), "gptneo": (0.188, 0.200), "btlm": (0.198, 0.206),
                   "gpt2": (0.347, 0.438), "bert_vocabulary": (0.387, 0.501)}
