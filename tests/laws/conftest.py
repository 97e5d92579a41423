"""Makes the profiles of `examples` known before one of them is chosen."""

import tests.laws.examples  # noqa: F401 - imported for what it registers
