"""``python -m benchmarks <name> [options]``; without a name, the list."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> int:
    """Run the benchmark that the first argument names."""
    names = [
        module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")
    ]
    asked = sys.argv[1:2] in (["--help"], ["-h"])
    if asked or len(sys.argv) < 2 or sys.argv[1] not in names:
        usage = f"usage: python -m benchmarks {{{','.join(names)}}} [--help]"
        print(usage, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m benchmarks {name}"
    result: int = importlib.import_module(f"benchmarks.{name}").main()
    return result


if __name__ == "__main__":
    sys.exit(main())
