"""What others reached on the workloads of bench/magis.py, in percent of extra time; ratios are of the step's peak bytes.

MAGIS: its measured points on an RTX 3090, read off figures 9 to 12 of the paper (about half a point off at most). Where a figure has
no point near a ratio, there is none here. PROTOTYPE: the best of an hour's searches by several methods over the same graphs, device
profile and program order as here: micro-batches in any number of parts, parts of the loss alone, nested ones, with recompute. Its
bytes are those of a peak, without addresses. The least ratios are for 10 and 5 percent of extra time.
"""

import math

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
# By cost model: Lowtide's roofline; products in whole waves of tiles; parts by SPLIT_PERCENT below.
PROTOTYPE_LEAST = {
    "roofline": {"resnet50": (0.268, 0.400), "bert": (0.143, 0.222), "vit": (0.203, 0.288), "unet": (0.062, 0.091),
                 "unetpp": (0.057, 0.061), "gptneo": (0.188, 0.200), "btlm": (0.198, 0.206),
                 "gpt2": (0.347, 0.438), "bert_vocabulary": (0.387, 0.501)},
    "tiles": {"resnet50": (0.259, 0.488), "bert": (0.157, 0.259), "vit": (0.234, 0.379), "unet": (0.064, 0.118),
              "unetpp": (0.058, 0.061), "gptneo": (0.191, 0.249), "btlm": (0.198, 0.205),
              "gpt2": (0.345, 0.425)},
    "published": {"resnet50": (0.496, 0.745), "bert": (0.491, 0.694), "vit": (0.326, 0.672), "unet": (0.196, 0.409),
                  "unetpp": (0.121, 0.230), "gptneo": (0.397, 0.594), "btlm": (0.282, 0.410)},
}

# Figures 9 and 10 of the paper: the least ratio of baselines within 10 and 5 percent; their extra time within 80 and 40 percent of
# memory, and MAGIS's. 1: not below; None: no plan.
BASELINES_LEAST = {
    "pofo": {"resnet50": (.622, .800), "bert": (.831, .960), "vit": (.752, .875), "unet": (1, 1), "unetpp": (1, 1), "gptneo": (1, 1),
             "btlm": (1, 1)},
    "dtr": {"resnet50": (.596, .849), "bert": (.769, .900), "vit": (.800, .949), "unet": (.700, .699), "unetpp": (.700, .750),
            "gptneo": (.850, 1), "btlm": (1, 1)},
    "xla": {"resnet50": (.793, .828), "bert": (.777, .872), "vit": (.757, .846), "unet": (.708, .763), "unetpp": (.783, 1),
            "gptneo": (.707, .807), "btlm": (1, 1)},
}
OVERHEADS = {
    "MAGIS": {"resnet50": (3.1, 13.3), "bert": (2.0, 14.9), "vit": (4.6, 9.7), "unet": (2.4, 6.1), "unetpp": (2.0, 3.9), "gptneo": (5.0, 9.8),
              "btlm": (3.1, 8.0)},
    "pofo": {"resnet50": (5.3, 32.4), "bert": (13.7, 28.6), "vit": (7.4, 27.3), "unet": (None, None), "unetpp": (None, None),
             "gptneo": (19.3, 39.7), "btlm": (42.0, 41.9)},
    "dtr": {"resnet50": (4.1, 44.3), "bert": (8.9, 23.5), "vit": (8.7, 21.3), "unet": (2.7, 72.0), "unetpp": (3.4, None),
            "gptneo": (13.3, None), "btlm": (None, None)},
    "xla": {"resnet50": (8.2, None), "bert": (9.9, 70.0), "vit": (6.1, 65.1), "unet": (3.9, None), "unetpp": (10.1, None),
            "gptneo": (6.4, None), "btlm": (20.8, None)},
}
# Figure 11, all of MAGIS's points: ratio, extra time.
CURVES = {
    "resnet50": [(.20, 23.8), (.21, 22.6), (.317, 15.5), (.34, 13.8), (.511, 7.9), (.54, 7.0), (.638, 3.7), (.761, 1.6), (.864, .7), (1, -3.5)],
    "bert": [(.174, 21.6), (.296, 15.2), (.468, 9.1), (.586, 7.6), (.699, 5.5), (.795, 2.3), (1, -1.2)],
    "unet": [(.052, 30.3), (.077, 20.7), (.142, 13.2), (.256, 6.8), (.266, 6.4), (.497, 3.7), (.51, 3.1), (.516, 2.7), (1, .4)],
    "gptneo": [(.227, 58.3), (.256, 27.4), (.307, 24.1), (.309, 20.2), (.312, 15.8), (.413, 15.1), (.414, 10.0), (.522, 7.3), (.640, 6.3),
               (.731, 5.3), (.785, 1.9)],
}
# Likewise the rivals' points that need least memory.
RIVALS = {
    "resnet50": {"pofo": (.30, 50), "dtr": (.449, 44), "xla": (.527, 113)},
    "bert": {"pofo": (.31, 32), "dtr": (.40, 25)},
    "unet": {"dtr": (.30, 93), "xla": (.49, 53)},
    "gptneo": {"pofo": (.295, 48.7)},
}
# Figure 12, ViT: by what POFO is given.
POFO_IN_PARTS = {
    "MAGIS": [(.25, 14.2), (.373, 9.8), (.613, 5.2), (.834, 4.7)],
    "POFO": [(.188, 51.5), (.242, 44.0), (.467, 33.2), (.936, 13.6)],
    "POFO, n=32": [(.122, 46.8), (.242, 36.0), (.467, 17.7), (.936, 8.9)],
    "POFO, n=16": [(.122, 45.2), (.242, 23.3), (.467, 18.9), (.936, 17.1)],
    "POFO, n=8": [(.122, 37.0), (.242, 32.6), (.467, 32.7), (.936, 33.7)],
}
# Figure 13, BERT: the least ratio within 10 and 5 percent, extra time within 80 and 40 percent of memory.
ABLATION = {"L=2": (.546, .746, 2.0, 14.5), "L=4": (.468, .699, 2.2, 15.0), "L=8": (.576, .663, 1.7, 19.5),
            "naive schedule rules": (.63, .767, 4.6, 17.3), "naive fission": (.857, .957, 11.4, 27.2)}

# Figure 15, ViT: what a search of a minute takes its time for.
STAGE_SECONDS = {"paper: transformation": 2.52, "paper: scheduling": 3.70, "paper: simulation": 8.71, "paper: hashes": 44.82,
                 "paper: others": 0.25}

# Extra time of a whole step in n parts, in percent: MAGIS's points that sit where whole micro-batches in 2, 4, 8, ... parts do. Read
# off figure 11 for ResNet-50, BERT, U-Net, off figure 12 for ViT. For U-Net++, GPT-Neo and BTLM guessed from what figures 9 and 10 say
# of the bytes at which a number of parts fits: not measured as such.
SPLIT_PERCENT = {
    "resnet50": {2: 7.9, 4: 14.5, 8: 23.8},
    "bert": {2: 9.1, 4: 15.2, 8: 21.6},
    "vit": {2: 5.2, 4: 9.8, 8: 14.2},
    "unet": {2: 3.1, 4: 6.8, 8: 13.2, 16: 20.7, 32: 30.3},
    "unetpp": {2: 2.0, 4: 3.9, 8: 9.8},
    "gptneo": {2: 7.3, 4: 15.8, 8: 27.4},
    "btlm": {2: 3.1, 4: 8.0, 8: 17.0},
}


def split_percent(workload: str, parts: int) -> float | None:
    """By these points: between and behind them linear in the logarithm of the number of parts. None: no such workload."""
    known = {1: 0.0, **SPLIT_PERCENT.get(workload, {})}
    if len(known) == 1:
        return None
    counts = sorted(known)
    above = next((k for k, n in enumerate(counts) if n >= parts), len(counts) - 1)
    low, high = counts[max(0, above - 1)], counts[max(1, above)]
    share = math.log(parts / low) / math.log(high / low)
    return known[low] + share * (known[high] - known[low])
