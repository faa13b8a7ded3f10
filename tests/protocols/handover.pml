/* Who hosts the control plane after its host left in an orderly way, while ranks are stopped, wake,
 * or die: src/bootstrap/README.md, "When the hub's process leaves", as a model.
 *
 * Rank 0 hosts the old hub, and its own rank has left. The hub offers its role to one rank after
 * the other, also if an earlier one is only slow. `spin_test.py` explores every run.
 *
 * Two rules stand for time limits. A new hub excludes ranks only when the running ranks have read
 * their messages. The old hub says farewell only when all ranks have an offer, and none of them
 * runs.
 *
 * Rules: all ranks follow the same hub, unless the old hub is killed (then at most one of the hubs
 * that they follow has the majority: succession.pml). No rank keeps a hub that nobody follows. Only
 * a rank that was stopped is excluded. When nothing can happen any more, each running rank is a
 * member of a hub, was told that it is excluded, or got a farewell while no rank ran.
 *
 * Options: N, the ranks (3 to 5). Broken variants, which must fail: ONE_OFFER (the next rank gets
 * an offer only when the one before has died); EACH_ANSWER (later answers count, too); KEEPS (a
 * rank that answered too late keeps its hub); KEEPS_AT_END (a rank keeps the hub that it opened
 * when the old one is killed, and takes it for the next one); HASTE (a new hub excludes ranks at
 * once). */
#ifndef N
#define N 4
#endif
#define OTHERS ((1 << N) - 2)
#define NONE N
#define bit(r) (1 << (r))
#define in(r, set) (((set) >> (r)) & 1)
#define runs(r) (in(r, alive) && !in(r, stopped))
#define candidate (runs(1) -> 1 : (runs(2) -> 2 : (runs(3) -> 3 : N - 1)))

mtype = { offer, moved, farewell, ended };      /* what the old hub sends; `ended`: its death */
mtype = { closed, opened, serves, claims };     /* states of a hub in another rank's process */
mtype = { old_hub, follows, looks, told, left }; /* states of a rank; `left`: it got a farewell */

chan to[N] = [2] of { mtype, byte };
chan answers = [N] of { byte };

byte alive = OTHERS, stopped = 0, was_stopped = 0;
byte offered = 0, chosen = NONE, sent = 0;
bool host_lives = true, killed = false, said_farewell = false;

mtype hub[N] = closed;
mtype state[N] = old_hub;
byte host[N] = NONE; /* whom a rank follows */

/* A running rank reads its messages, follows, and decides, in less than the time limits. */
#define idle(r) (!runs(r) || (empty(to[r]) && state[r] != looks && state[r] != old_hub))
#if N == 3
#define all_idle (idle(1) && idle(2))
#define member(x) ((state[1] == follows && host[1] == x) || (state[2] == follows && host[2] == x))
#elif N == 4
#define all_idle (idle(1) && idle(2) && idle(3))
#define member(x) \
  ((state[1] == follows && host[1] == x) || (state[2] == follows && host[2] == x) || \
   (state[3] == follows && host[3] == x))
#else
#define all_idle (idle(1) && idle(2) && idle(3) && idle(4))
#define member(x) \
  ((state[1] == follows && host[1] == x) || (state[2] == follows && host[2] == x) || \
   (state[3] == follows && host[3] == x) || (state[4] == follows && host[4] == x))
#endif

#ifdef ONE_OFFER
#define may_offer ((offered & alive) == 0)
#define all_offered true
#else
#define may_offer true
#define all_offered ((alive & ~offered) == 0)
#endif
#ifdef EACH_ANSWER
#define may_choose true
#else
#define may_choose (chosen == NONE)
#endif
#ifdef HASTE
#define may_settle true
#else
#define may_settle all_idle
#endif

inline follow(r, x) {
  state[r] = follows;
  host[r] = x;
  if
  :: killed
  :: !killed && r != 1 && state[1] == follows -> assert(host[1] == x)
  :: !killed && r != 2 && state[2] == follows -> assert(host[2] == x)
#if N > 3
  :: !killed && r != 3 && state[3] == follows -> assert(host[3] == x)
#endif
#if N > 4
  :: !killed && r != 4 && state[4] == follows -> assert(host[4] == x)
#endif
  :: else
  fi
}

proctype OldHub() {
  byte x = 0;
  end: do
  :: d_step { host_lives && !said_farewell && chosen == NONE && may_offer &&
             (alive & ~offered) != 0 ->
      x = 1;
      do
      :: !in(x, alive & ~offered) -> x++
      :: else -> break
      od;
      offered = offered | bit(x);
      to[x]!offer, 0;
      x = 0 }
  :: d_step { host_lives && !said_farewell && nempty(answers) && may_choose ->
      answers?x; chosen = x; x = 0 }
  :: d_step { host_lives && chosen != NONE && sent != OTHERS ->
      x = 1;
      do
      :: in(x, sent) -> x++
      :: else -> break
      od;
      sent = sent | bit(x);
      to[x]!moved, chosen;
      x = 0 }
  /* Nobody has answered in time. */
  :: d_step { host_lives && !said_farewell && chosen == NONE && alive != 0 && all_offered &&
             (offered & alive & ~stopped) == 0 && empty(answers) ->
      assert((alive & ~stopped) == 0);
      said_farewell = true;
      x = 1;
      do
      :: x < N -> to[x]!farewell, 0; x++
      :: else -> break
      od;
      x = 0 }
  :: d_step { host_lives && !said_farewell && sent != OTHERS ->
      host_lives = false; killed = true;
      x = 1;
      do
      :: x < N && !in(x, sent) -> to[x]!ended, 0; x++
      :: x < N && in(x, sent) -> x++
      :: else -> break
      od;
      x = 0 }
  od
}

proctype Rank(byte me) {
  byte x = 0;
  end: do
  :: d_step { runs(me) && nempty(to[me]) && to[me]?[offer, _] ->
      to[me]?offer, _;
      hub[me] = opened;
      if
      :: host_lives -> answers!me
      :: else
      fi }
  :: d_step { runs(me) && nempty(to[me]) && to[me]?[moved, _] ->
      to[me]?moved, x;
#ifndef KEEPS
      if
      :: x != me && hub[me] == opened -> hub[me] = closed
      :: else
      fi;
#endif
      if
      :: in(x, alive) && hub[x] == opened -> follow(me, x)
      :: in(x, alive) && hub[x] == serves -> state[me] = told
      :: else -> state[me] = looks
      fi;
      x = 0 }
  :: d_step { runs(me) && nempty(to[me]) && to[me]?[farewell, _] ->
      to[me]?farewell, _; hub[me] = closed; state[me] = left }
  :: d_step { runs(me) && nempty(to[me]) && to[me]?[ended, _] ->
      to[me]?ended, _;
#ifndef KEEPS_AT_END
      hub[me] = closed;
#endif
      state[me] = looks }
  /* The hub in this process excludes the ranks that have not come. Without members it ends. */
  :: d_step { runs(me) && hub[me] == opened && may_settle && member(me) ->
      hub[me] = serves;
      x = 1;
      do
      :: x < N && runs(x) && !(state[x] == follows && host[x] == me) && !killed ->
        assert(in(x, was_stopped)); x++
      :: x < N && !(runs(x) && !(state[x] == follows && host[x] == me) && !killed) -> x++
      :: else -> break
      od;
      x = 0 }
  /* After the old hub's death: to the lowest rank that answers. It hosts the next hub, unless it
   * follows one. If it follows another hub, this rank waits there in vain and gives up. */
  :: d_step { runs(me) && state[me] == looks && candidate == me && hub[me] == closed ->
      hub[me] = claims; state[me] = follows; host[me] = me }
  :: d_step { runs(me) && state[me] == looks && candidate != me && hub[candidate] == claims ->
      state[me] = follows; host[me] = candidate }
  :: d_step { runs(me) && state[me] == looks && candidate != me && hub[candidate] != claims &&
             state[candidate] != looks && state[candidate] != old_hub -> state[me] = told }
  od
}

proctype Faults() {
  byte x;
  byte changes = 0;
  end: do
  :: atomic { changes < N && alive != 0 -> select(x : 1 .. N - 1);
      if
      :: in(x, alive) && !in(x, stopped) -> changes++;
        stopped = stopped | bit(x); was_stopped = was_stopped | bit(x)
      :: in(x, stopped) -> changes++; stopped = stopped & ~bit(x)
      :: in(x, alive) -> changes++; alive = alive & ~bit(x)
      :: else
      fi; x = 0 }
  :: true -> break /* nothing more happens */
  od
}

/* A member, told, or without a hub because no rank ran; and no hub that nobody follows. */
#define good(r) \
  (!runs(r) || ((state[r] == told || state[r] == left || state[r] == follows) && \
                (hub[r] == closed || member(r))))

#if N == 3
#define all_good (good(1) && good(2))
#elif N == 4
#define all_good (good(1) && good(2) && good(3))
#else
#define all_good (good(1) && good(2) && good(3) && good(4))
#endif
active proctype Monitor() {
  end: timeout -> assert(all_good)
}

init {
  byte r = 1;
  atomic {
    do
    :: r < N -> run Rank(r); r++
    :: else -> break
    od;
    run OldHub();
    run Faults();
  }
}
