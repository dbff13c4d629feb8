"""Runs in the engine's Python: parses ``vllm bench serve`` lines with vLLM's own parser, one JSON list a line."""

import json
import sys

from vllm.benchmarks.serve import add_cli_args  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

SHOWN = (
    "model",
    "dataset_name",
    "random_input_len",
    "random_output_len",
    "prefix_repetition_prefix_len",
    "prefix_repetition_suffix_len",
    "num_prompts",
    "max_concurrency",
    "request_rate",
    "seed",
    "result_filename",
    "metadata",
)


def main() -> None:
    """Print what each line means to the client, or that it refuses it."""
    for line in sys.stdin:
        parser = FlexibleArgumentParser()
        add_cli_args(parser)
        try:
            arguments = vars(parser.parse_args(json.loads(line)))
        except SystemExit as refused:
            print(json.dumps({"refused": refused.code}))
            continue
        print(json.dumps({name: arguments[name] for name in SHOWN}))


if __name__ == "__main__":
    main()
