"""Run one sweep: start Ray, let Tune run Optuna's trials, and write down what came out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweeps.announce import make_console, print_head, print_next_steps
from sweeps.directory import SweepDirectory, claim_directory
from sweeps.log import log_to_file
from sweeps.outcome import EXIT_FAILED, EXIT_OK, exit_code_of_signal
from sweeps.preflight import Preflight, preflight
from sweeps.progress import Progress
from sweeps.ray_session import StopRequest, cluster_nodes, on_cluster, prepare_environment, ray_session, stop_on_signals
from sweeps.records import SweepRecords
from sweeps.schema import Mode, SweepConfig
from sweeps.space import SearchSpace
from sweeps.summary import print_outcome, summary_data, sweep_status, write_outcome
from sweeps.tracking import open_tracker

if TYPE_CHECKING:
    from ray.tune import Tuner
    from ray.tune.schedulers import TrialScheduler

    from actorlearner.settings import Settings
    from sweeps.search import OptunaSearcher
    from sweeps.tracking import SweepTracker


@dataclass(frozen=True)
class Plan:
    """What a sweep is going to do; everything in it is checked.

    Attributes:
        space: what is searched.
        found: environment, resolved settings and resources.
        concurrency: trials at once.
    """

    space: SearchSpace
    found: Preflight
    concurrency: int

    @property
    def engine_config(self) -> dict[str, Any]:
        """The engine's configuration that trials vary, with every null resolved."""
        return self.found.settings.to_dict()


def run_sweep(config: SweepConfig, overrides: list[str]) -> int:
    """Run a sweep from its typed configuration.

    Args:
        config: the composed configuration.
        overrides: the command line's overrides; the configuration has them already.

    Returns:
        The exit code: 0 when at least one trial succeeded, 1 when all failed, 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
        ConfigError: a mistake in the configuration; nothing was started or written.
    """
    prepare_environment()
    with cluster_nodes() as nodes:
        plan = make_plan(config, nodes)
        directory = claim_directory(config)
        with log_to_file(directory.log):
            return _Sweep(config, plan, directory).run()


def make_plan(config: SweepConfig, nodes: list[dict[str, float]] | None = None) -> Plan:
    """Check the search space, the environment and the resources.

    Args:
        config: the composed configuration.
        nodes: resources of each node of a cluster; None for this machine.
    """
    found = preflight(config, nodes)
    space = SearchSpace.from_config(config.search_space, found.settings.to_dict())
    fitting = found.concurrent or config.search.num_trials
    return Plan(space, found, min(fitting, config.search.max_concurrent or fitting, config.search.num_trials))


def checkpoint_frequency(budget: int, settings: Settings) -> int:
    """Return after how many results a trial is saved: Tune saves nothing when a sweep is stopped by hand.

    Twenty times in a long trial; in a short one after every fifth result, since saving takes as long as sampling.
    """
    results = budget // max(1, settings.algorithm.min_sample_timesteps_per_iteration)
    return max(5, results // 20)


class _Sweep:
    """One sweep's parts, wired together."""

    def __init__(self, config: SweepConfig, plan: Plan, directory: SweepDirectory) -> None:
        sweep = config.sweep
        self.config = config
        self.plan = plan
        self.directory = directory
        self.console = make_console()
        self.name = str(sweep.name)
        self.budget = sweep.budget.env_steps_per_trial
        self.stop = StopRequest(self.budget)
        maximize = sweep.objective.mode is Mode.max
        self.records = SweepRecords(sweep.objective.metric, maximize, self.budget, config.search.num_trials)

    def run(self) -> int:
        print_head(self.console, self.config, self.plan)
        tracker = self._start_tracker()
        failure: BaseException | None = None
        try:
            with stop_on_signals(self.stop, self._say_stopping) as install_handlers:
                self._fit(tracker, install_handlers)
        except BaseException as error:  # also a second Ctrl-C: what the trials brought must not be lost
            failure = error
        self.records.interrupt_running()
        interrupted = self.stop.stop_all() or isinstance(failure, KeyboardInterrupt)
        status = "failed" if failure is not None and not interrupted else sweep_status(self.records, interrupted)
        reason = None if failure is None else f"{type(failure).__name__}: {failure}"
        write_outcome(self.directory, self.records, status, self.name, reason)
        self._end_tracker(tracker, status)
        if failure is not None:
            raise failure
        print_outcome(self.console, self.directory, self.records, status)
        print_next_steps(self.console, self.config, self.directory, self.records)
        for problem in tracker.problems if tracker is not None else ():
            self.console.print(f"Tracking: {problem}", style="yellow", markup=False)
        if self.stop.signal_number is not None:
            return exit_code_of_signal(self.stop.signal_number)
        return EXIT_FAILED if status == "failed" else EXIT_OK

    def _say_stopping(self) -> None:
        self.console.print("Stopping: running trials are ended and everything is written (again: stop at once)")

    def _start_tracker(self) -> SweepTracker | None:
        tracker = open_tracker(self.config)
        if tracker is not None:
            tracker.start_sweep(None, self.name, config=self.config.to_dict(), yaml_text=self.config.to_yaml())
        return tracker

    def _end_tracker(self, tracker: SweepTracker | None, status: str) -> None:
        if tracker is not None:
            best = self.records.best()
            data = summary_data(self.records, status, name=self.name)
            tracker.end_sweep(status, data, best.trial_id if best else None)
            tracker.close()

    def _fit(self, tracker: SweepTracker | None, ray_is_up: Callable[[], None]) -> None:
        # The display comes first: Ray takes seconds to start.
        with Progress(self.records, self.console) as progress, self._ray():
            ray_is_up()
            searcher = self._searcher()
            try:
                self._tuner(searcher, progress, tracker).fit()
            finally:
                searcher.finalize("the sweep was stopped")
                searcher.close()

    def _ray(self) -> AbstractContextManager[object]:
        """Start the embedded Ray; a cluster is connected already."""
        if on_cluster():
            return nullcontext()
        return ray_session(remote_workers=self.plan.found.has_remote_workers)

    def _searcher(self) -> OptunaSearcher:
        from sweeps.search import OptunaSearcher
        from sweeps.study import study_url

        sweep, search = self.config.sweep, self.config.search
        return OptunaSearcher(
            study_url(self.directory.root),
            self.name,
            self.plan.space,
            self.plan.engine_config,
            sweep.objective.metric,
            sweep.objective.mode.value,
            self.budget,
            search.sampler.value,
            sweep.seed,
            search.num_trials,
            search.default_first,
        )

    def _tuner(self, searcher: OptunaSearcher, progress: Progress, tracker: SweepTracker | None) -> Tuner:
        from ray.tune import CheckpointConfig, RunConfig, TuneConfig, Tuner, with_resources

        from actorlearner.algorithms.registry import algorithm_class
        from actorlearner.resources import placement_group
        from sweeps.observer import TrialNames

        sweep = self.config.sweep
        names = TrialNames(sweep.seed)
        # The bundles are the sweep's, worked out once: Tune would ask each trial's configuration in the driver, where a
        # mistake in a single one ends the whole sweep.
        trainable = with_resources(
            algorithm_class(self.config.algorithm.name), placement_group(self.plan.found.settings)
        )
        return Tuner(
            trainable,
            param_space=self.plan.engine_config,
            tune_config=TuneConfig(
                # No metric here: Tune would end the whole sweep at the first result that lacks it.
                search_alg=searcher,
                scheduler=self._scheduler(searcher),
                num_samples=-1,  # the searcher counts
                max_concurrent_trials=self.plan.concurrency,
                reuse_actors=True,
                trial_name_creator=names,
                trial_dirname_creator=names,
            ),
            run_config=RunConfig(
                name=self.directory.trials.name,
                storage_path=str(self.directory.root),
                stop=self.stop,
                callbacks=self._callbacks(searcher, progress, tracker),
                checkpoint_config=CheckpointConfig(
                    num_to_keep=1,
                    checkpoint_at_end=True,
                    checkpoint_frequency=checkpoint_frequency(self.budget, self.plan.found.settings),
                ),
                verbose=0,
            ),
        )

    def _scheduler(self, searcher: OptunaSearcher) -> TrialScheduler:
        from sweeps.schedulers import make_scheduler

        scheduler, objective = self.config.scheduler, self.config.sweep.objective
        return make_scheduler(
            scheduler.type.value,
            metric=objective.metric,
            mode=objective.mode.value,
            budget=self.budget,
            grace_fraction=scheduler.grace_fraction,
            reduction_factor=scheduler.reduction_factor,
            on_error=searcher.note_error,
        )

    def _callbacks(self, searcher: OptunaSearcher, progress: Progress, tracker: SweepTracker | None) -> list[Any]:
        from ray.tune.logger import JsonLoggerCallback

        from sweeps.observer import SweepObserver
        from sweeps.tracking.callback import MlflowCallback

        keys = [dimension.key for dimension in self.plan.space.dimensions]
        observer = SweepObserver(self.records, progress, keys, self.config.sweep.seed)
        callbacks: list[Any] = [JsonLoggerCallback(), observer]
        if tracker is not None:
            # After the observer, whose records decide how a trial ended.
            callbacks.append(
                MlflowCallback(
                    tracker,
                    budget=self.budget,
                    metric=self.records.metric,
                    base_seed=self.config.sweep.seed,
                    end_of=self.records.end_of,
                )
            )
        return callbacks
