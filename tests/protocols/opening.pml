/* How ranks end the opening of a communicator that shrink() makes, also if the process that hosts
 * the control plane dies meanwhile: src/bootstrap/README.md, "All or none", as a model.
 *
 * `spin_test.py` explores every run of it. All ranks have contributed to the last exchange. Their
 * hub sends the result to one rank after the other. Any rank can crash at any point, also the hub
 * and the ranks that host it later. A rank reads what its hub has sent before it turns to the next
 * one, so a result that was sent counts as received.
 *
 * Options: N, the ranks. Broken variants, which must fail: AT_ONCE (the opening fails on each rank
 * without the result as soon as the hub dies); HASTY_HUB (a new hub does not wait for the reports of
 * all living ranks). */
#ifndef N
#define N 3
#endif
#define ALL ((1 << N) - 1)
#define bit(r) (1 << (r))
#define in(r, set) (((set) >> (r)) & 1)

mtype = { started, opened, failed };

mtype state[N] = started;
byte alive = ALL;
byte hub = 0;
bool first = true;    /* the hub is the one that has all contributions */
byte reported = 0;    /* ranks that told a new hub their state */
bool result = false;  /* a rank that has reported has the result */
bool decided = false; /* the new hub sends its decision */
byte r;

/* Sets r to any rank. If no action below fits this rank, the step does nothing. */
inline choose() {
  r = 0;
  do
  :: r < N - 1 -> r++
  :: break
  od
}

inline crash(rank) {
  alive = alive & ~bit(rank);
  if
  :: rank == hub && alive != 0 ->
    first = false; reported = 0; result = false; decided = false;
    hub = 0;
    do
    :: !in(hub, alive) -> hub++
    :: else -> break
    od;
#ifdef AT_ONCE
    i = 0;
    do
    :: i < N -> if
                :: in(i, alive) && state[i] == started -> state[i] = failed
                :: else
                fi;
                i++
    :: else -> break
    od
#endif
  :: else
  fi
}

active proctype job() {
  byte i;
  do
  :: alive != 0 ->
    choose();
    if
    :: in(r, alive) -> crash(r)
    /* The hub sends the result or its decision to a rank. */
    :: in(r, alive) && state[r] == started && first -> state[r] = opened
    :: in(r, alive) && state[r] == started && decided && result -> state[r] = opened
    :: in(r, alive) && state[r] == started && decided && !result -> state[r] = failed
    /* A rank reports to a new hub, and the hub decides. */
    :: in(r, alive) && !first && !decided ->
      reported = reported | bit(r);
      result = result || state[r] == opened
#ifdef HASTY_HUB
    :: !first && !decided && reported != 0 -> decided = true
#else
    :: !first && !decided && (alive & ~reported) == 0 -> decided = true
#endif
    :: else
    fi
  :: break
  od;
  i = 0;
  d_step {
    bool got = false, lost = false;
    do
    :: i < N ->
      got = got || (in(i, alive) && state[i] == opened);
      lost = lost || (in(i, alive) && state[i] == failed);
      i++
    :: else -> break
    od;
    assert(!(got && lost))
  }
}
