"""A script that reads its command line as soon as it is imported."""
import sys

sys.exit("expected --model")
