#include "train/parallel/pipeline/stage.h"

#include <algorithm>

#include "train/add.h"
#include "train/parallel/end_work.h"
#include "train/parallel/pipeline/replica_part.h"

namespace rondo::training {

namespace {

bool forwards(Task task) {
  return task == Task::send_activation || task == Task::receive_activation;
}

} // namespace

Stage::Stage(Communicator& pipe, const CutModel& model, Communicator* line)
    : pipe_(pipe), parts_(static_cast<int>(model.parts.size())) {
  for (int number = pipe.rank(); number < parts_; number += pipe.size()) {
    Part& part = own_.emplace_back();
    part.number = number;
    const LayerRange layers = model.parts[static_cast<std::size_t>(number)];
    if (line) {
      part.model = std::make_unique<TensorModel>(*line, model.layers, model.input,
                                                 model.seed.value(), layers, model.compute);
    } else {
      part.replica =
          std::make_unique<Replica>(model.layers, model.input, layers, model.seed, model.compute);
      part.model = std::make_unique<ReplicaPart>(*part.replica);
    }
    part.first_weight = weights_.size();
    part.statistics.resize(part.model->statistics().size());
    part.stands = [this, &part](std::size_t weight) { gradientStands(part, weight); };
    for (Weight* weight : part.model->weights()) {
      weights_.push_back(weight);
      part.beside.emplace_back(weight->size());
    }
    for (Weight* weight : part.model->state()) state_.push_back(weight);
  }
  times_.resize(own_.size());
}

Stage::~Stage() {
  const auto leave = [this](Work& work) { endWork(work, {&pipe_}, "a step of this rank"); };
  for (Message& message : outgoing_) leave(message.work);
  for (Part& part : own_)
    for (auto& [micro, flight] : part.flights) {
      leave(flight.input.work);
      leave(flight.gradient.work);
    }
}

std::vector<TensorModel*> Stage::sliced() {
  std::vector<TensorModel*> all;
  for (Part& part : own_) all.push_back(static_cast<TensorModel*>(part.model.get()));
  return all;
}

std::vector<std::span<float>> Stage::statistics() {
  std::vector<std::span<float>> all;
  for (Part& part : own_) all.push_back(part.model->statistics());
  return all;
}

void Stage::moveState(std::size_t samples) {
  for (Part& part : own_) part.model->moveState(samples);
}

void Stage::weightsChanged() {
  for (Part& part : own_) part.model->weightsChanged();
}

double Stage::train(const Timetable& timetable, const StageStep& step, StepClock& clock) {
  step_ = &step;
  loss_ = 0;
  for (Part& part : own_) part.forwards = part.backs = 0;
  execute(timetable, step.micro_batches, clock);
  for (Part& part : own_)
    std::copy(part.statistics.begin(), part.statistics.end(), part.model->statistics().begin());
  return loss_;
}

std::size_t Stage::evaluate(const Timetable& timetable, const MicroBatches& micro_batches) {
  TrainTimes times;
  StepClock clock(times, nullptr);
  step_ = nullptr;
  correct_ = 0;
  execute(timetable, micro_batches, clock);
  return correct_;
}

void Stage::execute(const Timetable& timetable, const MicroBatches& micro_batches,
                    StepClock& clock) {
  timetable_ = &timetable;
  micro_batches_ = &micro_batches;
  clock_ = &clock;
  for (const Operation& operation : timetable.ranks[static_cast<std::size_t>(pipe_.rank())]) {
    switch (operation.task) {
      case Task::receive_activation:
      case Task::receive_gradient: receive(operation); break;
      case Task::send_activation:
      case Task::send_gradient: send(operation); break;
      case Task::backward: backward(operation); break;
      case Task::forward:
      case Task::recompute: step_ ? forward(operation) : evaluateOne(operation); break;
      case Task::update: break; // done by the caller
    }
  }
  settle(true);
  lapWaiting();
}

void Stage::receive(const Operation& operation) {
  Part& part = partOf(operation);
  const bool activation = forwards(operation.task);
  const PartModel& model = *part.model;
  const SampleShape& shape = activation ? model.inputShape() : model.outputShape();
  Flight& flight = part.flights[operation.micro];
  Message& message = activation ? flight.input : flight.gradient;
  const std::size_t count = samples(operation) * shape.size();
  message.memory = take(count);
  message.work = pipe_.recvAsync(message.memory->data(), count, DataType::float32,
                                 timetable_->shape.rankOf(operation.part + (activation ? -1 : 1)));
}

void Stage::send(const Operation& operation) {
  Part& part = partOf(operation);
  const bool activation = forwards(operation.task);
  const auto flight = part.flights.find(operation.micro);
  Floats*& made = activation ? flight->second.made : flight->second.made_back;
  Message& message = outgoing_.emplace_back(Message{std::exchange(made, nullptr), {}});
  message.work = pipe_.sendAsync(message.memory->data(), message.memory->size(), DataType::float32,
                                 timetable_->shape.rankOf(operation.part + (activation ? 1 : -1)));
  if (!step_ || !activation) part.flights.erase(flight);
  settle(false);
}

void Stage::await(Message& message) {
  message.work.wait();
  lapWaiting();
}

/// The inputs of the first part are copied: the backward pass needs them, and loading the next
/// micro-batch overwrites them.
Batch Stage::load(Part& part, const Operation& operation, Flight& flight) {
  const bool first = part.number == 0, again = operation.task == Task::recompute;
  if (!first && !again) await(flight.input);
  Batch batch = micro_batches_->load(operation.micro, first && !again);
  if (first && !again)
    flight.input.memory = copy(batch.inputs, batch.count * part.model->inputShape().size());
  batch.inputs = flight.input.memory->data();
  clock_->lap(&TrainTimes::data, first ? "data" : nullptr);
  return batch;
}

void Stage::forward(const Operation& operation) {
  Part& part = partOf(operation);
  Flight& flight = part.flights[operation.micro];
  PartModel& model = *part.model;
  const bool again = operation.task == Task::recompute;
  const Batch batch = load(part, operation, flight);
  if (!again) flight.slot = takeSlot(part);
  const double loss = model.forward(batch, step_->pass, flight.slot);
  if (!again) {
    loss_ += loss;
    addStatistics(part);
  }
  const double passed = lapPass(&TrainTimes::forward, operation);
  if (again) return;
  partTimes(part).forward += passed;
  ++partTimes(part).passes;
  if (part.number + 1 == parts_) return;
  flight.made = copy(model.output(flight.slot), batch.count * model.outputShape().size());
  lapWaiting();
}

/// The first micro-batch writes its gradients directly into the sums, the others are added to them:
/// sums go from the first micro-batch to the last.
void Stage::backward(const Operation& operation) {
  Part& part = partOf(operation);
  const auto flight = part.flights.find(operation.micro);
  PartModel& model = *part.model;
  const bool last = part.number + 1 == parts_;
  if (!last) await(flight->second.gradient);
  const auto weights = part.model->weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i]->gradient =
        part.backs == 0 ? step_->sum(part.first_weight + i) : part.beside[i].data();
  const float* gradient = last ? nullptr : flight->second.gradient.memory->data();
  model.backward(gradient, part.stands, flight->second.slot);
  ++part.backs;
  partTimes(part).backward += lapPass(&TrainTimes::backward, operation);
  if (!timetable_->shape.recompute) part.free_slots.push_back(flight->second.slot);
  give(flight->second.input.memory);
  give(flight->second.gradient.memory);
  if (part.number == 0) {
    part.flights.erase(flight);
    return;
  }
  flight->second.made_back = copy(model.inputGradient(flight->second.slot),
                                  samples(operation) * model.inputShape().size());
  lapWaiting();
}

void Stage::evaluateOne(const Operation& operation) {
  Part& part = partOf(operation);
  const auto flight = part.flights.try_emplace(operation.micro).first;
  PartModel& model = *part.model;
  const Batch batch = load(part, operation, flight->second);
  if (part.number + 1 == parts_) {
    correct_ += model.evaluate(batch).correct;
    give(flight->second.input.memory);
    part.flights.erase(flight);
    return;
  }
  flight->second.made = copy(model.evaluateOutput(batch), batch.count * model.outputShape().size());
  give(flight->second.input.memory);
}

/// Adds from the first micro-batch to the last, as for gradients. The sums have their own memory,
/// because a recomputed pass writes the statistics of its batch again.
void Stage::addStatistics(Part& part) {
  const std::span<float> own = part.model->statistics();
  if (part.forwards++ > 0) add(part.statistics.data(), own.data(), own.size());
  else std::copy(own.begin(), own.end(), part.statistics.begin());
}

void Stage::gradientStands(Part& part, std::size_t weight) {
  const std::size_t number = part.first_weight + weight;
  if (part.backs > 0)
    add(step_->sum(number), part.beside[weight].data(), part.beside[weight].size());
  if (part.backs + 1 == timetable_->shape.micro_batches) step_->ready(number);
}

/// With recomputation a part keeps the activations of one micro-batch only.
std::size_t Stage::takeSlot(Part& part) {
  if (timetable_->shape.recompute) return 0;
  if (part.free_slots.empty()) return part.slots++;
  const std::size_t slot = part.free_slots.back();
  part.free_slots.pop_back();
  return slot;
}

Stage::Floats* Stage::take(std::size_t count) {
  std::vector<Floats*>& free = free_[count];
  if (free.empty()) return &memory_.emplace_back(count);
  Floats* memory = free.back();
  free.pop_back();
  return memory;
}

void Stage::give(Floats*& memory) {
  if (memory) free_[memory->size()].push_back(memory);
  memory = nullptr;
}

Stage::Floats* Stage::copy(const float* values, std::size_t count) {
  Floats* memory = take(count);
  std::copy_n(values, count, memory->data());
  return memory;
}

/// Recycles the memory of completed sends; with `all`, waits for all sends first.
void Stage::settle(bool all) {
  while (!outgoing_.empty()) {
    Message& message = outgoing_.front();
    if (!all && !message.work.test()) return;
    message.work.wait(); // rethrows its error
    give(message.memory);
    outgoing_.pop_front();
  }
}

Stage::Part& Stage::partOf(const Operation& operation) {
  return own_[static_cast<std::size_t>(operation.part / pipe_.size())];
}

PartTimes& Stage::partTimes(const Part& part) {
  return times_[static_cast<std::size_t>(part.number / pipe_.size())];
}

double Stage::lapPass(double TrainTimes::*to, const Operation& operation) {
  const std::string name =
      std::string(training::name(operation.task)) + " " + std::to_string(operation.micro);
  return clock_->lap(to, name.c_str(), partOf(operation).model->exchanges());
}

std::string Stage::firstNotFinite() const {
  for (const Part& part : own_)
    for (std::size_t slot = 0; slot < std::max<std::size_t>(part.slots, 1); ++slot) {
      const std::string layer = part.model->firstNotFinite(slot);
      if (!layer.empty()) return layer;
    }
  return {};
}

std::size_t Stage::samples(const Operation& operation) const {
  return micro_batches_->counts[static_cast<std::size_t>(operation.micro)];
}

} // namespace rondo::training
