"""The training steps of bench/magis.py: those of MAGIS's evaluation, others with what it leaves out, random ones, and one for tests."""

import dataclasses
import pathlib

import magis_networks
import nasnet
from lowtide import MODELS, SCRATCH

MSE, TOKENS = ("--loss", "mse"), ("--loss", "cross-entropy", "--dropout", "off")


@dataclasses.dataclass(frozen=True)
class Workload:
    network: str  # of models/magis_networks.py or models/nasnet.py, or a file of models/
    dims: dict[str, int]
    flags: tuple[str, ...] = MSE

    def path(self) -> pathlib.Path:
        if self.network in magis_networks.NETWORKS:
            return magis_networks.write(self.network, SCRATCH / "magis")
        if self.network.startswith("nasnet"):
            return nasnet.write(int(self.network.removeprefix("nasnet")), SCRATCH / "magis")
        return MODELS / f"{self.network}.onnx"

    def arguments(self, batch: int | None = None) -> list:
        """Of `lowtide plan` and its like; with another batch."""
        arguments = [self.path(), "--train", *self.flags, "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--device", "rtx3090"]
        for key, size in self.dims.items():
            arguments += ["--dim", f"{key}={batch if batch is not None and key == 'batch' else size}"]
        return arguments

    def of_benchmark(self) -> list:
        """Arguments of bench_labels: the same step, but its flags."""
        loss = self.flags[self.flags.index("--loss") + 1]
        dims = [word for key, size in self.dims.items() for word in ("--dim", f"{key}={size}")]
        return [self.path(), "--loss", loss, *dims]


TEXT = dict(batch=32, seq=512)
NASNET_BATCH = 512  # of images of 32x32: with few, starts of kernels are most of the step
TABLE_2 = {
    "resnet50": Workload("magis_resnet50", dict(batch=64)),
    "bert": Workload("magis_bert", TEXT),
    "vit": Workload("magis_vit", dict(batch=64)),
    "unet": Workload("magis_unet", dict(batch=32)),
    "unetpp": Workload("magis_unetpp", dict(batch=16)),
    "gptneo": Workload("magis_gptneo", TEXT),
    "btlm": Workload("magis_btlm", TEXT),
}
OTHERS = {
    "gpt2": Workload("gpt2", dict(batch=8, seq=512), TOKENS),
    "bert_vocabulary": Workload("bert", dict(batch=32, seq=128), TOKENS),
    "resnet50_bn": Workload("magis_resnet50_bn", dict(batch=64)),
    "unet_bn": Workload("magis_unet_bn", dict(batch=32)),
    "unetpp_bn": Workload("magis_unetpp_bn", dict(batch=16)),
    "nasnet0": Workload("nasnet0", dict(batch=NASNET_BATCH)),
}
# Only by name: random networks, and one for tests.
NAMED = {f"nasnet{seed}": Workload(f"nasnet{seed}", dict(batch=NASNET_BATCH))
         for seed in nasnet.SEEDS if seed > 0}
NAMED["tiny"] = Workload("magis_tiny", dict(batch=16, seq=64))
EVERYTHING = TABLE_2 | OTHERS | NAMED
SLOW_LAST = ("gptneo", "btlm")


def default_names() -> list[str]:
    return sorted([*TABLE_2, *OTHERS], key=lambda name: name in SLOW_LAST)
