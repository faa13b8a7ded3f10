"""Ranks that are tasks of a Spark job.

rondo.spark.run() starts a function as the ranks of a barrier stage, so that Spark's scheduler finds
the processors, starts all ranks together, and starts them again if one fails:

    import numpy
    from pyspark.sql import SparkSession
    import rondo.spark

    def train(comm, data):                  # data: this rank's partition, as NumPy arrays
        weights = numpy.zeros(20)
        for step in range(100):
            mean = gradient(weights, data)  # your function; an array
            comm.all_reduce(mean, "avg")
            weights -= 0.1 * mean
        return weights

    spark = SparkSession.builder.getOrCreate()
    weights = rondo.spark.run(train, num_proc=4, data=spark.read.parquet("samples"))[0]

Ranks send to each other directly, over shared memory and TCP; the driver and Spark's shuffle have
no part in it.
"""

import base64
import json
import pickle
import re
import traceback

from rondo._errors import ArgumentError, Error

__all__ = ["run"]

_FORMATS = ("numpy", "arrow", "batches")
_MARK = "rondo.spark failure: "
_TEXT_BYTES = 1800  # of the reason that abort() gives to all ranks, which is cut at 2048


def run(fn, num_proc=None, data=None, *, format="numpy", args=(), spark=None, **options):
    """Calls fn(comm, *args) on num_proc ranks, the tasks of one barrier stage of Spark.

    fn        a function that cloudpickle can send; with data it is called as fn(comm, data, *args).
              After a failure Spark calls it again on all ranks: it continues from the checkpoint
              that it finds.
    num_proc  number of ranks; None: spark.sparkContext.defaultParallelism. So many slots must be
              free at the same time; Spark waits for them, and gives up after
              spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures attempts.
    data      DataFrame of which each rank receives one partition, from Spark's worker to Python as
              Arrow data; it is repartitioned if it has another number of partitions
    format    how fn gets its partition. "numpy": dict of column name and array; a column of lists
              of equal length is an array with one more dimension. "arrow": pyarrow.Table.
              "batches": iterator of pyarrow.RecordBatch, for partitions larger than memory.
              A partition without rows has all columns, of length 0 (lists: shape (0, 0)), but may
              have no batches.
    options   those of rondo.init()

    Returns what fn returned, by rank. Results travel through the driver: return weights, not data.

    Raises rondo.Error if the stage failed as often as Spark allows
    (spark.stage.maxConsecutiveAttempts, 4 by default); its culprit is the rank whose function
    raised, or that died, and its text has that rank's traceback.

    Addresses and the secret of the job pass through the barrier's allGather: set
    spark.network.crypto.enabled where Spark's own messages must not be read.
    """
    from pyspark.sql import SparkSession  # a program without Spark can import rondo

    if format not in _FORMATS:
        raise ArgumentError(f"rondo.spark.run: format is {format!r}; there are "
                            f"{', '.join(_FORMATS)}", "invalid_argument")
    if data is not None:
        spark = data.sparkSession
    elif spark is None:
        spark = SparkSession.getActiveSession()
    if spark is None:
        raise ArgumentError("rondo.spark.run: there is no active SparkSession", "invalid_argument")
    if num_proc is None:
        num_proc = spark.sparkContext.defaultParallelism
    if num_proc < 1:
        raise ArgumentError(f"rondo.spark.run: num_proc is {num_proc}", "invalid_argument")

    if data is None:
        source = spark.range(num_proc, numPartitions=num_proc)
    elif data.rdd.getNumPartitions() == num_proc:
        source = data
    else:
        source = data.repartition(num_proc)
    task = _Task(fn, num_proc, None if data is None else format,
                 None if data is None else data.schema, tuple(args), options)
    ranks = source.mapInArrow(task, "rank int, result binary", barrier=True)
    try:
        # Spark does not try the last stage of a job again, so results take a shuffle.
        rows = ranks.repartition(1).collect()
    except Exception as error:
        raise _failure(error) from error
    return [pickle.loads(row.result) for row in sorted(rows, key=lambda row: row.rank)]


class _Task:
    """What each task of the stage does. Spark calls it with the partition's batches."""

    def __init__(self, fn, size, format, schema, args, options):
        self.fn, self.size, self.format, self.schema = fn, size, format, schema
        self.args, self.options = args, options

    def __call__(self, batches):
        import pyarrow
        import pyspark

        import rondo

        context = pyspark.BarrierTaskContext.get()
        rank = context.partitionId()
        if len(context.getTaskInfos()) != self.size:
            raise RuntimeError(f"the stage has {len(context.getTaskInfos())} tasks, not "
                               f"{self.size}: Spark has changed the number of partitions")
        own = rondo.unique_id() if rank == 0 else b""
        told = context.allGather(base64.b64encode(own).decode())
        comm = rondo.init(rank=rank, size=self.size, unique_id=base64.b64decode(told[0]),
                          **self.options)
        with comm:
            try:
                taken = () if self.format is None else (
                    _taken(batches, self.format, self.schema, pyarrow),)
                result = pickle.dumps(self.fn(comm, *taken, *self.args))
            except Exception as error:
                raise _told(comm, error)
        for _ in batches:  # Spark expects that the partition is read
            pass
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([rank], pyarrow.int32()), pyarrow.array([result], pyarrow.binary())],
            ["rank", "result"])


def _told(comm, error):
    """Ends the other ranks' calls, and returns the exception that tells the driver why."""
    if isinstance(error, Error) and error.code != "invalid_argument":
        code, culprit = error.code, error.culprit
    else:
        code, culprit = "aborted", comm.rank
    lines = "".join(traceback.format_exception(error))
    told = {"code": code, "culprit": culprit, "rank": comm.rank, "text": str(error),
            "traceback": lines}
    if not comm.closed and comm.failure() is None:
        comm.abort(_reason(comm.rank, error))
    failure = RuntimeError(_MARK + base64.b64encode(json.dumps(told).encode()).decode() + "\n"
                           + _bytes(told["text"]).decode())
    # Spark's worker dies if it cannot express what it prints in UTF-8.
    failure.__cause__ = error if _bytes(lines).decode() == lines else None
    return failure


def _reason(rank, error):
    """What the other ranks tell the driver about this one, if Spark hears of them first: Spark
    passes on only the first failure of a stage. A long traceback is cut at its beginning."""
    text = _bytes(f"rank {rank} raised {type(error).__name__}: {error}")[:_TEXT_BYTES // 2]
    calls = _bytes("".join(traceback.format_tb(error.__traceback__)))[len(text) - _TEXT_BYTES:]
    return (text + b"\nTraceback (most recent call last):\n" + calls).decode(errors="ignore")


def _bytes(text):
    """The text in UTF-8; a file's name in it may have characters that UTF-8 cannot express."""
    return text.encode(errors="replace")


def _failure(error):
    """The Error of a failed job: that of the culprit if Spark tells it, else of another rank."""
    found = [json.loads(base64.b64decode(text)) for text in
             re.findall(_MARK + "([A-Za-z0-9+/=]+)", str(error))]
    if not found:
        ended = re.search(r"barrier task \w+\(\d+, (\d+)\) finished unsuccessfully\.\s*(.*)",
                          str(error), re.DOTALL)
        if ended is None:
            return error  # none of the ranks': Spark could not run the stage
        died = "exited unexpectedly" in ended[2] or "ExecutorLost" in ended[2]
        return Error(f"rank {ended[1]} of the Spark job: {ended[2]}",
                     "peer_dead" if died else "init_failed", int(ended[1]), "rondo.spark.run")
    told = next((one for one in found if one["rank"] == one["culprit"]), found[0])
    _, raised, reason = told["text"].partition(f"rank {told['culprit']} raised ")
    if raised and told["rank"] != told["culprit"]:
        return Error(f"rank {told['culprit']} of the Spark job: {reason}", told["code"],
                     told["culprit"], "rondo.spark.run")
    return Error(f"rank {told['rank']} of the Spark job: {told['text']}\n{told['traceback']}",
                 told["code"], told["culprit"], "rondo.spark.run")


def _taken(batches, format, schema, pyarrow):
    if format == "batches":
        return batches
    all = list(batches)
    if all:
        table = pyarrow.Table.from_batches(all)
    else:  # Spark passes no batch of an empty partition
        from pyspark.sql.pandas.types import to_arrow_schema
        table = to_arrow_schema(schema).empty_table()
    if format == "arrow":
        return table
    return {name: _array(name, table.column(name), pyarrow) for name in table.column_names}


def _array(name, column, pyarrow):
    """A column as NumPy array; lists of equal length become rows."""
    values, shape = column.combine_chunks(), [len(column)]
    if isinstance(values, pyarrow.ChunkedArray):  # no chunks
        values = pyarrow.array([], column.type)
    while pyarrow.types.is_list(values.type) or pyarrow.types.is_large_list(values.type):
        length = len(values.flatten()) // len(values) if len(values) else 0
        if values.null_count or any(size != length for size in
                                    set(values.value_lengths().to_pylist())):
            raise ValueError(f'column "{name}" has lists of different lengths')
        shape.append(length)
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False).reshape(shape)
