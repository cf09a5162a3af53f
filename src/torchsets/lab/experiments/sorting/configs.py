"""What the experiment on sorting is. Needs no torch."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

MODELS = {"po-u": "PO-U", "linear": "LinAssign"}
THESIS_SETS = 2**18  # training sets; rows of models that see fewer say so


@dataclass(frozen=True)
class SortNumbers:
    """The defaults are the thesis' settings (section 4.4.1 and appendix A.2.1), but from 512 on.

    Sets of 512 and 1024 numbers are costly: their models see fewer of them.

    Attributes:
        sizes: Numbers per set.
        training_sets: How many sets the models of each size see, one entry for each size.
        batch_sizes: Sets per step, one entry for each size.
        seeds: How often PO-U is trained from other initial weights, one entry for each size.
        models: Any of po-u, linear.
        inner_steps: Gradient steps on the permutation, T.
        hidden: Hidden units of the comparison.
        hidden_bias: Whether they have a bias, as in the thesis. Without, F(s x, s y) = s F(x, y):
            sets from [0, s] are sorted exactly as those from [0, 1].
        learning_rate: Of Adam.
        evaluation_step_size: Step size of trained PO-U models when they are evaluated and drawn; 0:
            the learned one, as in the thesis.
        test_sets: Sets per interval for sizes up to 120.
        large_test_sets: Sets per interval for larger ones.
        transfer_from: Training sizes of the PO-U models that are tried on other sizes.
        transfer_to: The sizes that they are tried on.
        huge_test_sets: Sets per interval for transfer to more than 1024 numbers.
        true_gradient_size: Size at which the true gradient through Sinkhorn is compared, 0: none.
        seed: The first seed of the weights and of the sets.
        device: auto, cpu or cuda.
    """

    sizes: tuple[int, ...] = (5, 10, 15, 80, 100, 120, 512, 1024)
    training_sets: tuple[int, ...] = (*[THESIS_SETS] * 6, 2**14, 2**12)
    batch_sizes: tuple[int, ...] = (*[512] * 6, 64, 16)
    seeds: tuple[int, ...] = (5, 5, 5, 1, 1, 1, 1, 1)
    models: tuple[str, ...] = ("po-u", "linear")
    inner_steps: int = 6
    hidden: int = 16
    hidden_bias: bool = True
    learning_rate: float = 0.1
    evaluation_step_size: float = 0.0
    test_sets: int = 1000
    large_test_sets: int = 100
    transfer_from: tuple[int, ...] = (10, 100)
    transfer_to: tuple[int, ...] = (5, 10, 15, 80, 100, 120, 512, 1024, 2048, 4096)
    huge_test_sets: int = 10
    true_gradient_size: int = 10
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("models", self.models, MODELS)
        check_at_least(1, self, "sizes", "training_sets", "batch_sizes", "seeds", "hidden")
        check_at_least(1, self, "test_sets", "large_test_sets", "transfer_to", "huge_test_sets")
        check_at_least(0, self, "inner_steps", "true_gradient_size")
        for name in ("training_sets", "batch_sizes", "seeds"):
            if len(getattr(self, name)) != len(self.sizes):
                raise ValueError(
                    f"{name} must have one entry for each of the {len(self.sizes)} sizes, "
                    f"got {len(getattr(self, name))}"
                )


class Training(NamedTuple):
    """How the models of one size are trained.

    Attributes:
        size: Numbers per set.
        sets: How many sets a model sees.
        batch_size: Sets per step.
        seeds: How often PO-U is trained.
    """

    size: int
    sets: int
    batch_size: int
    seeds: int

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        return max(1, self.sets // self.batch_size)


def trainings_of(config: SortNumbers) -> list[Training]:
    """What is trained, for each size."""
    columns = (config.sizes, config.training_sets, config.batch_sizes, config.seeds)
    return [Training(*row) for row in zip(*columns, strict=True)]


def split_sort_numbers(table: str, config: SortNumbers) -> dict[str, SortNumbers]:
    """One size with all its models and seeds each."""
    del table
    return {
        f"n={one.size}": replace(
            config,
            sizes=(one.size,),
            training_sets=(one.sets,),
            batch_sizes=(one.batch_size,),
            seeds=(one.seeds,),
        )
        for one in sorted(trainings_of(config), reverse=True)
    }


SORT_NUMBERS = Experiment(
    "sort-numbers",
    "sort numbers by a learned comparison: permutation-optimisation against LinAssign",
    config=SortNumbers,
    scales={
        "smoke": {
            "sizes": (5, 10),
            "training_sets": (2**10, 2**10),
            "batch_sizes": (64, 64),
            "seeds": (2, 1),
            "test_sets": 20,
            "transfer_from": (10,),
            "transfer_to": (5, 20),
            "true_gradient_size": 5,
        },
        "cpu": {
            "training_sets": (2**18, 2**18, 2**18, 2**15, 2**15, 2**15, 2**11, 2**9),
            "batch_sizes": (512, 512, 512, 512, 512, 512, 32, 8),
            "seeds": (5, 3, 3, 1, 1, 1, 1, 1),
            "huge_test_sets": 2,
        },
        "full": {},
    },
    run="torchsets.lab.experiments.sorting.numbers:run",
    split=split_sort_numbers,
    tables=(
        Table(
            "perm/sorting-text",
            takes={"smoke": "20 s", "cpu": "30 min", "full": "a day"},
            fixed=(
                "inner_steps",
                "hidden",
                "hidden_bias",
                "learning_rate",
                "evaluation_step_size",
                "test_sets",
                "large_test_sets",
            ),
            merge={
                "smallest size sorted perfectly": "min",
                "largest size sorted perfectly": "max",
                "size at which mistakes begin on [0, 1]": "min",
                "size at which generalisation to [1000, 1001] is lost": "min",
            },
        ),
    ),
)

EXPERIMENTS = (SORT_NUMBERS,)
