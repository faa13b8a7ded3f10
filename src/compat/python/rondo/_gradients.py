"""The containers of a GradientReducer's gradients, whose arrays the program writes."""


class _Arrays:
    """Assigning to an element writes into its array: the reducer sends the arrays that it made."""

    def __setitem__(self, key, value):
        own = self[key]
        if value is not own:  # `gradients[key] += g` gives own
            own[...] = value

    def _refuse(self, *_, **__):
        raise TypeError("the gradients of a GradientReducer are fixed: write into their arrays")

    __delitem__ = clear = pop = _refuse


class Named(_Arrays, dict):
    def update(self, *given, **more):
        for key, value in dict(*given, **more).items():
            self[key] = value

    def __ior__(self, other):
        self.update(other)
        return self

    def __reduce__(self):  # copies are plain
        return dict, (dict(self),)

    popitem = setdefault = _Arrays._refuse


class Numbered(_Arrays, list):
    def __reduce__(self):
        return list, (list(self),)

    append = extend = insert = remove = reverse = sort = _Arrays._refuse
    __iadd__ = __imul__ = _Arrays._refuse
