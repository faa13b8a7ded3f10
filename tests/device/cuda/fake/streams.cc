// Streams, events, captures and graphs of the fake.
#include <algorithm>
#include <atomic>

#include "device/cuda/fake/entry.h"

using rondo::test::fake::Capture;
using rondo::test::fake::Entry;
using rondo::test::fake::Node;
using rondo::test::fake::self;

namespace {

/// Runs a graph's nodes, each on its own thread after the nodes before it.
void runNodes(const std::vector<Node>& nodes) {
  std::vector<std::atomic<bool>> done(nodes.size());
  std::vector<std::jthread> threads;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    threads.emplace_back([&, n] {
      for (const std::size_t before : nodes[n].after) done[before].wait(false);
      if (nodes[n].run) nodes[n].run();
      done[n].store(true);
      done[n].notify_all();
    });
}

/// Makes the stream join the event's capture, or wait for the event in it.
cudaError_t joinCapture(CUstream_st& stream, const CUevent_st& event) {
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream.capture = event.capture;
  for (const std::size_t node : event.nodes)
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end())
      stream.tail.push_back(node);
  return cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  Entry entry(__func__);
  auto made = std::make_unique<CUstream_st>();
  made->device = entry.state.current();
  made->flags = flags;
  auto& device = entry.state.devices[static_cast<std::size_t>(made->device)];
  made->queue = device.streams++ % device.queues.size();
  *stream = made.release();
  entry.state.streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  Entry entry(__func__);
  entry.state.current();
  if (entry.state.streams.erase(stream) == 0) {
    entry.state.complain("a stream was destroyed that does not exist");
    return entry.result(cudaErrorInvalidResourceHandle);
  }
  delete stream;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t handle) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->invalid = true;
    entry.state.complain("a stream was synchronized while it was being captured");
    return entry.result(cudaErrorStreamCaptureUnsupported);
  }
  if (const auto last = stream->last)
    entry.state.changed.wait(entry.lock, [&last] { return last->done; });
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t handle) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) {
    stream->capture->invalid = true;
    entry.state.complain("a stream was queried while it was being captured");
    return entry.result(cudaErrorStreamCaptureUnsupported);
  }
  if (stream->last && !stream->last->done) return entry.result(cudaErrorNotReady);
  ++entry.state.calls["cudaStreamQuery of a stream that is done"];
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  Entry entry(__func__);
  const CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  if (entry.state.hidden(*stream, entry.name))
    return entry.result(cudaErrorStreamCaptureUnsupported);
  *flags = stream->flags;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream || !entry.state.events.contains(event))
    return entry.result(cudaErrorInvalidResourceHandle);
  if (event->capture) return entry.result(joinCapture(*stream, *event));
  if (!event->item) return cudaSuccess;
  if (stream->capture) {
    stream->capture->invalid = true;
    entry.state.complain("a captured stream was told to wait for work outside its capture");
    return entry.result(cudaErrorStreamCaptureIsolation);
  }
  return entry.result(entry.state.put(
      *stream, [] {}, false, event->item));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  Entry entry(__func__);
  *event = new CUevent_st;
  (*event)->device = entry.state.current();
  entry.state.events.insert(*event);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  Entry entry(__func__);
  entry.state.current();
  if (entry.state.events.erase(event) == 0) {
    entry.state.complain("an event was destroyed that does not exist");
    return entry.result(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream || !entry.state.events.contains(event) || event->device != stream->device)
    return entry.result(cudaErrorInvalidResourceHandle);
  event->capture = stream->capture;
  event->nodes = stream->tail;
  event->item = nullptr;
  if (stream->capture) return cudaSuccess;
  const cudaError_t status = entry.state.put(
      *stream, [] {}, false);
  event->item = stream->last;
  return entry.result(status);
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  Entry entry(__func__);
  entry.state.current();
  if (entry.state.unsafe(entry.name)) return entry.result(cudaErrorStreamCaptureUnsupported);
  if (!entry.state.events.contains(event)) return entry.result(cudaErrorInvalidResourceHandle);
  if (event->capture) {
    entry.state.complain("an event was queried that was recorded in a capture");
    return entry.result(cudaErrorCapturedEvent);
  }
  return entry.result(!event->item || event->item->done ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  Entry entry(__func__);
  entry.state.current();
  if (!entry.state.events.contains(event) || event->capture)
    return entry.result(cudaErrorInvalidResourceHandle);
  if (const auto item = event->item)
    entry.state.changed.wait(entry.lock, [&item] { return item->done; });
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  Entry entry(__func__);
  std::swap(*mode, self().mode);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream || stream->capture || !handle) return entry.result(cudaErrorInvalidValue);
  stream->capture = std::make_shared<Capture>();
  stream->capture->id = entry.state.next_capture++;
  stream->capture->mode = mode;
  stream->capture->begun_by = std::this_thread::get_id();
  stream->capture->origin = stream;
  stream->tail.clear();
  entry.state.captures.push_back(stream->capture);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream || !stream->capture || stream->capture->origin != stream)
    return entry.result(cudaErrorInvalidValue);
  const auto capture = stream->capture;
  bool joined = true;
  for (CUstream_st* other : entry.state.streams) {
    if (other->capture != capture) continue;
    for (const std::size_t last : other->tail) {
      // The nodes that can be reached backwards from the origin's last nodes.
      std::vector<std::size_t> open = stream->tail;
      bool found = false;
      while (!open.empty() && !found) {
        const std::size_t node = open.back();
        open.pop_back();
        found = node == last;
        const auto& after = capture->nodes[node].after;
        open.insert(open.end(), after.begin(), after.end());
      }
      joined &= found;
    }
  }
  for (CUstream_st* other : entry.state.streams)
    if (other->capture == capture) {
      other->capture = nullptr;
      other->tail.clear();
    }
  *graph = nullptr;
  if (capture->invalid) return entry.result(cudaErrorStreamCaptureInvalidated);
  if (!joined) return entry.result(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{capture->nodes};
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t*,
                                               const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                               std::size_t*) {
  Entry entry(__func__);
  const CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  if (id) *id = stream->capture ? stream->capture->id : 0;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                           unsigned long long) {
  Entry entry(__func__);
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  Entry entry(__func__);
  CUstream_st* stream = entry.state.streamOf(handle);
  if (!stream) return entry.result(cudaErrorInvalidResourceHandle);
  return entry.result(entry.state.put(
      *stream, [nodes = executable->nodes] { runNodes(nodes); }, true));
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

} // extern "C"
