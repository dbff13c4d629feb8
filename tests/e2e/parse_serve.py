"""Runs in the engine's Python: parses ``vllm serve`` command lines with vLLM's own parser, one JSON list a line."""

import json
import sys

from vllm.entrypoints.launchers.cli_args import make_arg_parser  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

SHOWN = (
    "model_tag",
    "tensor_parallel_size",
    "numa_bind",
    "numa_bind_nodes",
    "numa_bind_cpus",
    "cpu_offload_gb",
    "kv_offloading_size",
    "kv_offloading_backend",
    "kv_cache_dtype",
    "max_model_len",
    "kv_transfer_config",
)


def main() -> None:
    """Print what each line means to the engine, or why it refuses it."""
    for line in sys.stdin:
        parser = make_arg_parser(FlexibleArgumentParser())
        try:
            arguments = vars(parser.parse_args(json.loads(line)))
        except SystemExit as refused:
            print(json.dumps({"refused": refused.code}))
            continue
        print(json.dumps({name: arguments[name] for name in SHOWN}, default=vars))


if __name__ == "__main__":
    main()
