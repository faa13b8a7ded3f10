"""Proves that the examples of all docstrings are right, and that everything public has one."""

import doctest
import inspect
import unittest

import numpy

import rondo


def documented():
    yield "rondo", rondo
    for name in rondo.__all__:
        value = getattr(rondo, name)
        yield name, value
        if inspect.isclass(value):
            for member, of in vars(value).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", of


class Examples(unittest.TestCase):
    def test_examples(self):
        parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
        printed = []
        for name, value in documented():
            self.assertTrue(value.__doc__, name)
            names = {"numpy": numpy, "rondo": rondo}
            runner.run(parser.get_doctest(value.__doc__, names, name, None, 0), out=printed.append)
        # Every collective but the barrier has an example; recv() is in send()'s.
        self.assertGreater(runner.tries, 20)
        self.assertEqual(runner.failures, 0, "".join(printed))


if __name__ == "__main__":
    unittest.main()
