import os
import signal

from hypothesis import settings

# The same examples on every CI run, so that a landing does not hang on a draw; new ones elsewhere.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "explore")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts us in the background has Ctrl-C ignored, which our children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
