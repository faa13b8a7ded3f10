/* Who hosts the control plane after its host died or was cut off, and which part of a job whose
 * network is cut in two goes on: src/bootstrap/README.md, "When the hub dies", as a model.
 *
 * `spin_test.py` explores every run of it: ranks that crash at any point, a network that is
 * cut in two halves at any point and mends, and messages that are lost with their connections.
 *
 * A hub counts the ranks that answer it. `gone` are the ranks of which it is certain that they have
 * ended, because their listener refuses connections. One thing is taken from time: a hub stops to
 * count a silent rank after three heartbeats, and a rank gives up a silent hub after four.
 *
 * Left out: an exchange of which only some ranks get the result before their hub dies (opening.pml).
 *
 * Options: N, the ranks (2 to 5). GOES_ON: the property is not that two parts never both go on, but
 * that one does; then a cut network does not mend, and a new hub decides only when the ranks that it
 * can reach have come, as they do in time. STOPS: the network is not cut, but a process, also that
 * of a hub, may be stopped and wake again. Then a rank that was excluded must never go on without
 * the others, also if all of them have ended since.
 *
 * MENDS: the cut is brief. It lasts long enough that a rank skips a candidate that does not notice
 * the cut, but no hub drops a rank because of it, and it ends before a new hub decides. Then a part
 * must never go on if another one, now ended, has gone on without it. Before a hub goes on without a
 * living rank, it tells that rank.
 *
 * Stops are of two kinds. During a long one, hubs stop to count the process, and its ranks give up
 * the hub in it. A brief one (`brief`) is shorter than two heartbeats, so neither happens. But if
 * heartbeats are longer than a second, a rank that looks for the next hub may skip the process as a
 * candidate, after two seconds, also if it has opened its hub already. A new hub may decide without
 * it, later still. So a process that wakes notices each stop of 1.5 seconds, and these two always;
 * other brief stops it may notice or not. With brief stops a new hub decides only when all running
 * ranks have given up the old one. With long stops it may decide at any time.
 *
 * Broken variants, which must fail: NO_MAJORITY; NO_QUESTION (the old host counts as dead); HASTE (a
 * rank gives up a hub that still counts it); with GOES_ON also HASTY_HUB (it decides at once); with
 * STOPS also FORGETS (a rank that wakes does not consider that the others may have gone on and ended
 * since), HEARTBEATS (it considers this only after a stop of two heartbeats, not of 1.5 seconds),
 * HASTY_HUB (with brief stops, a hub decides before running ranks have given up the old one) and
 * BLIND (a hub that wakes decides before it reads that connections have ended); with MENDS also
 * UNTOLD (no hub tells the ranks without which it goes on). */
#ifndef N
#define N 3
#endif
#ifdef STOPS
#define MOST_CUTS 0
#else
#define MOST_CUTS 1
#endif
#define ALL ((1 << N) - 1)
#define NONE N
#define bit(r) (1 << (r))
#define in(r, set) (((set) >> (r)) & 1)
#define size(set) \
  (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1) + (((set) >> 4) & 1))
#define lives(r) in(r, alive)
#ifdef STOPS
#define runs(r) (lives(r) && (r) != stopped)
#define mayHaveMoved(r) ((r) == woke -> maybe : 0)
/* Of a process that does not run: a rank does not give up its hub after a brief stop. */
#define silent(r) (!runs(r) && !(brief && (r) == stopped && lives(r) && serves[r]))
inline noteSkip(r) {
  if
  :: lives(r) && (r) == stopped -> skipped = true
  :: else
  fi
}
inline noteAbsent(h) {
  if
  :: stopped != NONE && !in(stopped, counts[h]) -> skipped = true
  :: else
  fi
}
#else
#define silent(r) (!runs(r))
#define noteSkip(r) skip
#define noteAbsent(h) skip
#define runs(r) lives(r)
#ifdef MENDS
#define mayHaveMoved(r) (moved[r])
#else
#define mayHaveMoved(r) 0
#endif
#endif
#define sees(a, b) (in(a, half) == in(b, half))
#define lowest(set) ((set) & (0 - (set)))

byte alive = ALL;
byte half = 0; /* the ranks in one half of a cut network */
byte cuts = 0;
#ifdef STOPS
byte stopped = NONE; /* the rank whose process is stopped */
byte woke = NONE;    /* the rank that was stopped */
byte maybe = 0;      /* of it: ranks that may have moved to another hub, and have ended since */
byte others = 0;     /* the last part that went on without it */
bool brief = false;  /* it is stopped for less than two heartbeats, so hubs count it */
bool skipped = false; /* a rank or a new hub has waited for it for two seconds or more */
#endif

/* of each rank */
byte follows[N]; /* its hub, or NONE while it looks for another one */
byte old[N];     /* the hub that it followed before */
byte passed[N];  /* candidates that have ended or do not answer */
byte told[N];    /* ranks that have ended, as its hub told it */
bool out[N];     /* it was told that its part does not go on */
#ifdef MENDS
byte moved[N];   /* ranks that may have moved to another hub, and have ended since */
byte others = 0; /* the last part that went on without a living rank */
#endif

/* of the hub in each rank's process */
bool hosts[N], serves[N];
byte counts[N], gone[N];

#ifdef NO_MAJORITY
#define majority(h, here) true
#else
#define majority(h, here) \
  (2 * size(here) > N - size(gone[h]) || \
   (2 * size(here) == N - size(gone[h]) && (lowest(ALL & ~gone[h]) & (here)) != 0))
#endif
/* A communicator with a dead rank does nothing, so only living ranks make a part that goes on. */
#define goesOn(h) (runs(h) && serves[h] && majority(h, counts[h] & alive))

#ifdef HASTE
#define gaveUp(h, r) (!sees(h, r) || !in(r, counts[h]))
#else
#define gaveUp(h, r) (!in(r, counts[h]))
#endif

inline tellMembers(h) {
  byte m = 0;
  do
  :: m < N ->
    if
    :: in(m, counts[h]) && sees(h, m) -> told[m] = told[m] | gone[h]
    :: else
    fi;
    m++
  :: else -> break
  od;
  m = 0
}

inline dissolve(h) {
  byte m = 0;
  do
  :: m < N ->
    if
    :: in(m, counts[h]) -> out[m] = true; follows[m] = NONE
    :: else
    fi;
    m++
  :: else -> break
  od;
  m = 0;
  counts[h] = 0;
  hosts[h] = false
}

/* The ranks that this hub does not count, that have ended, and that it can ask. */
#define ended(h) \
  (ALL & ~alive & ~counts[h] & ~mayHaveMoved(h) & (in(h, half) -> half : ALL & ~half))
/* Every rank that this hub does not count is asked. */
inline askAll(h) { gone[h] = gone[h] | ended(h) }

#ifdef STOPS
/* To be called when the ranks that the hub counts have changed, or those that have ended. */
inline note(h) {
  if
  :: goesOn(h) && woke != NONE && in(woke, counts[h]) ->
    assert(others == 0 || (others & counts[h] & alive) != 0);
    others = 0
  :: goesOn(h) && woke != NONE && !in(woke, counts[h]) && hosts[woke] -> others = counts[h] & alive
  :: goesOn(h) && stopped != NONE && !in(stopped, counts[h]) -> others = counts[h] & alive
  :: else
  fi
}
#elif defined(MENDS)
inline note(h) {
  if
  :: goesOn(h) ->
    assert(others == 0 || (others & counts[h] & alive) != 0);
    if
    :: (alive & ~counts[h]) != 0 -> others = counts[h] & alive
    :: else -> others = 0 /* all that live are together again */
    fi
  :: else
  fi
}
#else
#define note(h) skip
#endif

#if defined(MENDS) && !defined(UNTOLD)
inline tellAbsent(h) {
  byte t = 0;
  do
  :: t < N && lives(t) && !in(t, counts[h]) ->
    moved[t] = ALL & ~bit(t) & ~(hosts[t] -> gone[t] | counts[t] : told[t]);
    t++
  :: t < N && !(lives(t) && !in(t, counts[h])) -> t++
  :: else -> break
  od;
  t = 0
}
#else
#define tellAbsent(h) skip
#endif

#ifdef STOPS
/* The process continues. First it reads which connections have ended. */
inline wake(notices) {
  byte m = 0;
  woke = stopped;
  stopped = NONE;
#ifndef FORGETS
  maybe = (notices -> ALL & ~bit(woke) & ~(hosts[woke] -> gone[woke] : told[woke]) : 0);
#endif
#ifndef BLIND
  do
  :: m < N && hosts[woke] && lives(m) && follows[m] != woke ->
    counts[woke] = counts[woke] & ~bit(m);
    m++
  :: m < N && !(hosts[woke] && lives(m) && follows[m] != woke) -> m++
  :: else -> break
  od;
#endif
  m = 0;
  note(woke)
}
#endif

/* Living ranks that the hub can reach, and that are still to come to it. */
#ifdef STOPS
#define came(h, r) \
  (!brief || !runs(r) || out[r] || follows[r] == h || (follows[r] != NONE && lives(follows[r])))
#else
#define came(h, r) (!lives(r) || !sees(h, r) || out[r] || follows[r] == h)
#endif
#ifdef MENDS
#define mayDecide(h) (half == 0)
#elif (!defined(GOES_ON) && !defined(STOPS)) || defined(HASTY_HUB)
#define mayDecide(h) true
#elif N == 2
#define mayDecide(h) (came(h, 0) && came(h, 1))
#elif N == 3
#define mayDecide(h) (came(h, 0) && came(h, 1) && came(h, 2))
#elif N == 4
#define mayDecide(h) (came(h, 0) && came(h, 1) && came(h, 2) && came(h, 3))
#else
#define mayDecide(h) (came(h, 0) && came(h, 1) && came(h, 2) && came(h, 3) && came(h, 4))
#endif

proctype Rank(byte me) {
  byte x;
  end: do
  /* As a hub that serves. */
  :: d_step { runs(me) && serves[me] && (counts[me] & ~alive) != 0 ->
      x = lowest(counts[me] & ~alive); counts[me] = counts[me] & ~x; x = 0; note(me) }
#ifndef MENDS
  :: d_step { runs(me) && serves[me] &&
             (counts[me] & (in(me, half) -> ALL & ~half : half)) != 0 ->
      x = lowest(counts[me] & (in(me, half) -> ALL & ~half : half));
      counts[me] = counts[me] & ~x; x = 0 }
#endif
  :: d_step { runs(me) && serves[me] && (ended(me) & ~gone[me]) != 0 ->
      askAll(me); tellMembers(me); note(me) }
#ifdef STOPS
  :: d_step { runs(me) && serves[me] && stopped != NONE && !brief &&
             in(stopped, counts[me]) -> counts[me] = counts[me] & ~bit(stopped); note(me) }
#endif
  /* As a hub that takes over: it decides when all have come or been asked. */
  :: d_step { runs(me) && hosts[me] && !serves[me] && mayDecide(me) ->
      counts[me] = counts[me] & alive & (in(me, half) -> half : ALL & ~half);
      askAll(me);
      noteAbsent(me);
      if
      :: majority(me, counts[me]) -> serves[me] = true; tellAbsent(me); tellMembers(me); note(me)
      :: else -> dissolve(me)
      fi }
  /* As a member whose hub died, or does not answer. */
  :: d_step { runs(me) && !out[me] && follows[me] != NONE && follows[me] != me &&
             ((silent(follows[me]) && (sees(me, follows[me]) || cuts > 0)) ||
              gaveUp(follows[me], me)) ->
      noteSkip(follows[me]);
      old[me] = follows[me]; follows[me] = NONE; passed[me] = 0 }
  /* Looking for another hub, at the lowest rank that may live. */
  :: d_step { runs(me) && !out[me] && follows[me] == NONE ->
      x = 0;
      do
      :: x < N && (x == old[me] || in(x, passed[me]) || in(x, told[me])) -> x++
      :: else -> break
      od;
      if
      :: x == N -> out[me] = true
      :: x == me ->
        follows[me] = me; hosts[me] = true; serves[me] = false;
        counts[me] = bit(me); gone[me] = told[me];
#ifdef NO_QUESTION
        gone[me] = gone[me] | bit(old[me])
#endif
      :: x < N && x != me && (!sees(me, x) || !runs(x)) ->
        noteSkip(x); passed[me] = passed[me] | bit(x)
      :: x < N && x != me && sees(me, x) && runs(x) && hosts[x] && !serves[x] ->
        follows[me] = x; counts[x] = counts[x] | bit(me)
      :: x < N && x != me && sees(me, x) && runs(x) && (out[x] || serves[x]) -> out[me] = true
      :: else /* it has not noticed yet, and is waited for */
      fi;
      x = 0 }
#ifdef STOPS
  /* A beat that was sent after the process woke: neither side of this connection has moved. */
  :: d_step { runs(me) && woke != NONE && me != woke && follows[me] == woke && runs(woke) &&
             serves[woke] && in(me, counts[woke]) && in(me, maybe) -> maybe = maybe & ~bit(me) }
  :: d_step { runs(me) && me == woke && !hosts[me] && follows[me] != NONE && runs(follows[me]) &&
             serves[follows[me]] && in(me, counts[follows[me]]) && maybe != 0 -> maybe = 0 }
#endif
  od
}

proctype Faults() {
  byte x;
  end: do
  :: atomic { size(alive) > 1 -> select(x : 0 .. N - 1);
      if
      :: lives(x) -> alive = alive & ~bit(x)
      :: else
      fi; x = 0 }
  :: atomic { half == 0 && cuts < MOST_CUTS -> cuts++; select(x : 1 .. ALL - 1); half = x; x = 0 }
#ifndef GOES_ON
  :: d_step { half != 0 -> half = 0 }
#endif
#ifdef STOPS
  :: atomic { stopped == NONE && woke == NONE -> select(x : 0 .. N - 1);
      if
      :: lives(x) -> stopped = x
      :: else
      fi; x = 0 }
#ifdef HEARTBEATS
  :: d_step { stopped != NONE && lives(stopped) -> wake(!brief) }
#else
  :: d_step { stopped != NONE && lives(stopped) -> wake(true) }
  :: d_step { stopped != NONE && lives(stopped) && brief && !skipped -> wake(false) }
#endif
#endif
  :: true -> break /* nothing more happens */
  od
}

#define two(a, b) (goesOn(a) && goesOn(b))
#if N == 2
#define split (two(0, 1))
#elif N == 3
#define split (two(0, 1) || two(0, 2) || two(1, 2))
#elif N == 4
#define split \
  (two(0, 1) || two(0, 2) || two(1, 2) || two(0, 3) || two(1, 3) || two(2, 3))
#else
#define split \
  (two(0, 1) || two(0, 2) || two(1, 2) || two(0, 3) || two(1, 3) || two(2, 3) || \
   two(0, 4) || two(1, 4) || two(2, 4) || two(3, 4))
#endif

#ifdef GOES_ON
/* A half with more than half of the ranks that may live. Ranks that died there are known. */
#define large(side) (2 * size(alive & (side)) > N - size((side) & ~alive))
#define inPart(h, side) (in(h, side) && goesOn(h))
#if N == 2
#define anyGoesOn(side) (inPart(0, side) || inPart(1, side))
#elif N == 3
#define anyGoesOn(side) (inPart(0, side) || inPart(1, side) || inPart(2, side))
#elif N == 4
#define anyGoesOn(side) \
  (inPart(0, side) || inPart(1, side) || inPart(2, side) || inPart(3, side))
#else
#define anyGoesOn(side) \
  (inPart(0, side) || inPart(1, side) || inPart(2, side) || inPart(3, side) || inPart(4, side))
#endif
#define good \
  ((!large(half) || anyGoesOn(half)) && (!large(ALL & ~half) || anyGoesOn(ALL & ~half)))
/* Finds the runs in which it is not so again and again, or for ever. */
never {
  again: do
  :: !(good) -> goto accept
  :: true
  od;
  accept: goto again
}
#else
active proctype Monitor() {
  end: atomic { split -> assert(false) }
}
#endif

init {
  byte r = 0;
  atomic {
    do
    :: r < N -> follows[r] = 0; old[r] = NONE; run Rank(r); r++
    :: else -> break
    od;
#ifdef STOPS
    if
    :: brief = true
    :: true
    fi;
#endif
    hosts[0] = true; serves[0] = true; counts[0] = ALL;
    run Faults();
    r = 0
  }
}
