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
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        print(f"usage: python -m benchmarks {{{','.join(names)}}} [--help]", file=sys.stderr)
        return 2
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m benchmarks {name}"
    result: int = importlib.import_module(f"benchmarks.{name}").main()
    return result


if __name__ == "__main__":
    sys.exit(main())
