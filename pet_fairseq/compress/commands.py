"""The command `pet-fairseq compress`, and the commands of its stages: parse, call, print."""

from argparse import Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group
from pet_fairseq.compress.options import compress_options, updates_options
from pet_fairseq.compress.training import updates_for
from pet_fairseq.devices import check_device, choose_device
from pet_fairseq.runner.arguments import run_options
from pet_fairseq.runner.run import dry_run, run_stages


def _compress(args: Namespace) -> None:
    from pet_fairseq.compress.given import read_given
    from pet_fairseq.compress.plan import check_options, make_plan
    from pet_fairseq.compress.preparation import choose_training_device, prepare
    from pet_fairseq.compress.stages import build_pipeline
    from pet_fairseq.compress.student import Size

    args.device = choose_device(args.device)
    if not args.dry_run:
        check_device(args.device)
    choose_training_device(args.device, args.precision)  # refused before the teacher is made
    args.size = Size(args.rate, args.megabytes)
    out = args.out if args.out.parts else Path.cwd()  # in records, `.` could not be told from OUT
    check_options(args)
    request = prepare(args, read_given(args, out))
    if request is None:
        print("# the other stages depend on what these make")
        return
    plan = make_plan(request)
    pipeline = build_pipeline(plan)
    options = run_options(args, pipeline)
    if args.dry_run:
        commands = dry_run(pipeline.stages, pipeline.folder)
        print("\n".join([*(f"# {line}" for line in pipeline.about), commands]))
        return
    print("\n".join(pipeline.about), flush=True)
    run_stages(pipeline.stages, pipeline.folder, options)
    report = plan.layout.report
    print(f"\n{report.read_text(encoding='utf-8').splitlines()[0]}\nread on in {report}")


def _updates(args: Namespace) -> None:
    print(updates_for(args.log, args.hours, args.share, args.at_least))


COMMANDS = (
    Command(
        name="compress",
        group=Group.MAIN,
        help="make a small model from a trained one: train, export and compare it",
        add_arguments=compress_options,
        run=_compress,
    ),
    Command(
        name="updates-for",
        group=None,
        help="print how many updates fit into some hours, by the log of a short training",
        add_arguments=updates_options,
        run=_updates,
        needs_models=False,
    ),
)
