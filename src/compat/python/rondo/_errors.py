"""The exceptions of Rondo."""


class Error(RuntimeError):
    """A call failed. The first failure of a group is the same on all its ranks.

    code     "mismatch", "peer_dead", "unresponsive", "timeout", "aborted", "init_failed",
             "transport", "system", "unsupported", "data", "wrong_result" or
             "invalid_argument"
    culprit  the rank that caused it, or None
    call     the call that raised it, with rank and arguments
    """

    def __init__(self, text, code, culprit=None, call=None):
        super().__init__(text)
        self.code = code
        self.culprit = culprit
        self.call = call

    def __reduce__(self):
        return type(self), (str(self), self.code, self.culprit, self.call)


class ArgumentError(Error, ValueError):
    """This rank's arguments are wrong. Nothing was sent, and the communicator stays usable."""


class DTypeError(Error, TypeError):
    """Rondo has no such element type. Nothing was sent, and the communicator stays usable."""
