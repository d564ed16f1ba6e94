"""Fits of the models of a cell at every training set size, and the memory that they need."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk._json import JsonDict, JsonMapping
from korisk.fitting.gradient.recipe import Recipe, draw_batches, released_generator
from korisk.fitting.gradient.train import Member, train, train_many
from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.dense import DenseRidge
from korisk.fitting.ridge.diagonal import DiagonalRidge
from korisk.fitting.ridge.refinement import refine
from korisk.networks import KnownOperatorNet, zoo
from korisk.operators import Composed
from korisk.problems import Pools, Problem, measure
from korisk.store.cells import Row
from korisk.studies.run.worker import Report
from korisk.studies.spec.entries import OF_GRADIENT

Settings = JsonMapping  # of a model
Arrays = dict[str, NDArray[np.generic]]
Fitted = tuple[Row, Arrays]

_STARTS = (10.0, 1.0, 0.1)  # lambdas in units of `scale` from which a refinement is tried
_CLEARLY = 0.99  # a score below this share of another beats the noise-free analytic weights
_PIECE = 64  # inputs of a network's call outside of training
PICTURES = 2  # test images whose reconstructions are stored


@dataclass(frozen=True)
class Bench:
    """The problem and the known operators, which all seeds of a point share."""

    problem: Problem
    prepared: object  # held so that it is not built again
    weights: Tensor  # analytic, of an input's shape
    tail: Composed
    gram: Tensor | None  # B^T B of the tail, if a fit uses it and it fits into memory


@dataclass(frozen=True)
class Job:
    """One model of a cell, to be fitted at every size."""

    model: str
    sizes: list[int]
    settings: Settings
    seed: int
    bench: Bench
    pools: Pools
    report: Report

    def each_size(self) -> Iterator[int]:
        """Iterate over the sizes; each is reported as done when the next is requested."""
        for index, n in enumerate(self.sizes):
            yield n
            self.report(sum(self.sizes[: index + 1]) / sum(self.sizes))

    def row(
        self, n: int, predictions: Tensor, detail: JsonDict, weights: Tensor | None = None
    ) -> Fitted:
        """A row of the results, with arrays."""
        targets = self.pools.test.targets
        arrays: Arrays = {"images": picture(predictions)}
        if weights is not None:
            arrays["weights"] = weights.detach().cpu().numpy().astype(np.float32)
        if targets.ndim > 2:
            metrics = measure(predictions, targets)
        else:  # fields on a line: metrics that need neither a maximum nor a window
            measured = measure(predictions.unsqueeze(1), targets.unsqueeze(1))
            metrics = {name: measured[name] for name in ("mse", "relative")}
        return Row(model=self.model, n=n, metrics=metrics, detail=detail), arrays


class Fit(ABC):
    """Base class of the fits of a model, with the settings of a study."""

    with_gram = False  # whether it uses B^T B of the known operators

    @abstractmethod
    def rows(self, job: Job) -> Iterator[Fitted]:
        """A row for every size, in ascending order."""

    def check(self, settings: Settings, side: int) -> None:  # noqa: B027 (most check nothing)
        """Raise for settings with which no cell can be computed; `side` is of images, else 0."""


class KnownRidge(Fit):
    """The known-operator network in closed form, then refined with its ReLU."""

    with_gram = True

    def rows(self, job: Job) -> Iterator[Fitted]:
        """Before training, then at every size."""
        test, analytic, settings = job.pools.test, job.bench.weights, job.settings
        tail, gram, relu = job.bench.tail, job.bench.gram, settings["relu"]
        toward = analytic if settings["toward"] == "analytic" else None
        ridge = DiagonalRidge(tail, *job.pools.train, toward=toward, relu=relu, gram=gram)
        # N = 0 stands for the analytic weights, before any training.
        yield job.row(0, ridge.predict(analytic, test.inputs), {}, analytic)
        scorer = Scorer(*(test if settings["select"] == "test" else job.pools.validation))
        for n in job.each_size():
            start = time.perf_counter()
            weights, detail = self._fitted(ridge, n, scorer, settings)
            detail["seconds"] = seconds_since(start, weights)
            yield job.row(n, ridge.predict(weights, test.inputs), detail, weights)

    @staticmethod
    def _fitted(
        ridge: DiagonalRidge, n: int, scorer: Scorer, settings: Settings
    ) -> tuple[Tensor, JsonDict]:
        """Weights and details; a function, so that the normal matrix is freed at its end."""
        training = ridge.training(n)
        fit = training.fit(scorer=scorer, grid=settings.get("grid"))
        if not settings["refine"]:
            assert fit.choice is not None
            return fit.weights, _chosen(fit.penalty, fit.choice.score)
        penalty, refined = fit.penalty, refine(fit, scorer, steps=settings["refine"])
        if ridge.relu and math.isinf(fit.penalty):
            # No ridge fit was better than the analytic weights; one refined with the ReLU may be.
            for share in _STARTS:
                start = training.fit(penalty=share * training.scale)
                candidate = refine(start, scorer, steps=settings["refine"])
                # A small gain may be chance: analytic weights were not fitted to any sample.
                if candidate.score_after < _CLEARLY * refined.score_after:
                    penalty, refined = start.penalty, candidate
        return refined.weights, _chosen(penalty, refined.score_after)


class KnownGradient(Fit):
    """The known-operator network, trained by gradients at all sizes side by side."""

    def check(self, settings: Settings, side: int) -> None:
        """Raise for a recipe that does not exist."""
        recipe_of(settings)

    def rows(self, job: Job) -> Iterator[Fitted]:
        """Before training, then at every size; training sets are nested."""
        recipe = recipe_of(job.settings)
        test, analytic = job.pools.test, job.bench.weights
        build = partial(KnownOperatorNet, tail=job.bench.tail, relu=job.settings["relu"])
        yield job.row(0, build(analytic)(test.inputs), {}, analytic)
        # Runs of a group share the batch length; sizes below `batch` have shorter batches.
        groups = [[n] for n in job.sizes if n < recipe.batch]
        if large := [n for n in job.sizes if n >= recipe.batch]:
            groups.append(large)
        for group, sizes in enumerate(groups):
            # `group` is bound as a default, since the loop changes it.
            def share(done: float, group: int = group) -> None:
                job.report((group + done) / len(groups))

            start = time.perf_counter()
            size = recipe.batch, recipe.steps
            # A new generator for each size, as in the released code.
            batches = [draw_batches(n, *size, released_generator(job.seed)) for n in sizes]
            network = build(analytic.expand(len(sizes), *analytic.shape))
            samples = (*job.pools.train, recipe)
            train(network, *samples, indices=torch.stack(batches, 1), progress=share)
            seconds = seconds_since(start, network.weights) / len(sizes)
            for index, n in enumerate(sizes):
                weights = network.weights.detach()[index]
                yield job.row(n, build(weights)(test.inputs), {"seconds": seconds}, weights)


class DenseFits(Fit):
    """The dense network in closed form."""

    def rows(self, job: Job) -> Iterator[Fitted]:
        """A row for every size."""
        # Leave-one-out needs no validation samples.
        test, settings = job.pools.test, job.settings
        ridge = DenseRidge(*job.pools.train, relu=settings["relu"])
        scorer = None
        if settings["select"] != "leave-one-out":
            samples = test if settings["select"] == "test" else job.pools.validation
            scorer = Scorer(*samples, by=settings["by"])
        for n in job.each_size():
            start = time.perf_counter()
            fit = ridge.training(n).fit(scorer=scorer, grid=settings.get("grid"))
            assert fit.choice is not None
            detail = _chosen(fit.penalty, fit.choice.score)
            detail["seconds"] = seconds_since(start, ridge.targets)
            yield job.row(n, fit.predict(test.inputs), detail)


class ZooNetwork(Fit):
    """A network that the problem builds, such as one of `korisk.networks.zoo`."""

    def rows(self, job: Job) -> Iterator[Fitted]:
        """A row for every size; all sizes are trained at once if the device allows."""
        settings, device = job.settings, job.pools.test.inputs.device
        of_training = ("steps", "batch", "rate")
        shape = {name: value for name, value in settings.items() if name not in of_training}
        recipe = Recipe(**{name: settings[name] for name in of_training}, cosine=True)
        # `train_many` takes one pool: training, validation and test rows follow each other.
        inputs, targets = (torch.cat(tensors).float() for tensors in zip(*job.pools, strict=True))
        counts = [len(pool.inputs) for pool in job.pools]
        rows, validation, test = torch.split(torch.arange(len(inputs), device=device), counts)
        build = job.bench.problem.networks(device=device, **shape)
        networks = [build(job.seed) for _ in job.sizes]
        # Operators before the first learned layer are applied once, not in every step.
        # The known part is the same for all of them.
        known_part, _ = zoo.split_known(networks[0])
        learned = [zoo.split_known(network)[1] for network in networks]
        images = torch.cat([known_part(piece) for piece in torch.split(inputs, _PIECE)])
        members = [
            Member(f"{job.model} at N = {n}", network, job.seed, rows[:n], validation, test)
            for n, network in zip(job.sizes, learned, strict=True)
        ]
        start = time.perf_counter()
        with torch.enable_grad():
            list(train_many(members, images, targets, recipe, progress=job.report))
        detail: JsonDict = {"seconds": seconds_since(start, images) / len(members)}
        for n, network in zip(job.sizes, learned, strict=True):
            network.eval()
            outputs = torch.cat([network(images[piece]) for piece in torch.split(test, _PIECE)])
            weights = sum(parameters.numel() for parameters in network.parameters())
            yield job.row(n, outputs, detail | {"parameters": weights})

    def check(self, settings: Settings, side: int) -> None:
        """Raise if the levels cannot halve the images."""
        if "levels" in settings:
            zoo.check_halved((side, side), settings["levels"])


def fit_of(model: str, settings: Settings) -> Fit:
    """The fit of KO, of FC, or of a network of the zoo, whose settings have a kind."""
    if "kind" in settings:
        return ZooNetwork()
    if model == "FC":
        return DenseFits()
    return KnownRidge() if settings["fit"] == "ridge" else KnownGradient()


def recipe_of(settings: Settings) -> Recipe:
    """The recipe of training by gradients."""
    of_training = {name: settings[name] for name in OF_GRADIENT if name != "iterations"}
    return Recipe(**of_training, steps=settings["iterations"])


def _chosen(penalty: float, score: float) -> JsonDict:
    """Details of a ridge fit: lambda, None if infinite, and the score that it was chosen by."""
    return {"lambda": None if math.isinf(penalty) else penalty, "score": score}


def picture(images: Tensor) -> NDArray[np.generic]:
    """The first images in the precision of figures; the middle slices of volumes."""
    slices = images[:, images.shape[1] // 2] if images.ndim == 4 else images
    # Half precision is enough for figures and keeps stores small.
    return slices[:PICTURES].detach().cpu().numpy().astype(np.float16)


def seconds_since(start: float, result: Tensor) -> float:
    """Seconds until a result was computed, waiting for the device."""
    if result.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
