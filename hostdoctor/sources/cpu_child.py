"""Asks py-cpuinfo what the CPU is and prints it as JSON. Runs as its own process: the probe takes over a second.

Stands alone (it is started by file name): it imports the standard library and py-cpuinfo, nothing of hostdoctor.
"""

import json
import sys

# py-cpuinfo's names, by ours.
FIELDS = {"brand": "brand_raw", "vendor": "vendor_id_raw", "arch": "arch", "flags": "flags"}


def main() -> None:
    """Print one JSON object; end with the reason on standard error where there is no answer."""
    try:
        import cpuinfo

        told = cpuinfo.get_cpu_info()
    except Exception as error:  # noqa: BLE001  whatever it trips over on a CPU that it does not know
        sys.exit(f"{type(error).__name__}: {error}")
    if not isinstance(told, dict) or not told.get("brand_raw"):
        sys.exit("py-cpuinfo does not know this CPU")
    sys.stdout.write(json.dumps({name: told[field] for name, field in FIELDS.items() if told.get(field)}) + "\n")


if __name__ == "__main__":
    main()
