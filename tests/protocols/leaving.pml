/* Ranks that leave in an orderly way while their hub moves or is replaced, and hubs that offer
 * their role more than once: src/bootstrap/README.md, "When the hub's process leaves", as a model.
 * handover.pml has more stopped ranks, succession.pml has networks that are cut.
 *
 * Rank 0 hosts the first hub, and its own rank has left. Each other rank may leave at any time,
 * also one that hosts a later hub, so the hub may move again. FAULTS processes, also those of hubs,
 * are killed, or stopped and perhaps continued. The messages of one connection keep their order,
 * those of two connections do not. So an answer to an offer may come late, after other ranks have
 * left.
 *
 * A time limit passes only when nothing else can happen (`Clock`): running processes are faster.
 * Limits may pass in any order, whatever their lengths, with two exceptions. A rank waits longer for
 * its next hub than another rank takes to open it (`mayOpen`). A hub that replaces another one
 * excludes ranks later than they give up the old one (`mayCome`). An earlier version of this model
 * had neither these exceptions nor heartbeats, and named runs that are impossible with 4 ranks.
 *
 * Ranks give up a silent hub, and a candidate that does not answer. Left out: that such a process
 * continues (succession.pml has this); RONDO_PATIENT; two ranks of one process; a process that is
 * stopped between two messages that it sends at once.
 *
 * Rules: no two hubs have the majority at the same time. A rank that left, or that was neither
 * killed nor stopped, is never named as dead or unresponsive (except by a hub that was stopped).
 * When nothing can happen any more, each rank that leaves has left, and no other rank waits. If the
 * ranks that were never stopped are the majority of those that live, they have a hub. Two kinds of
 * ranks do not count for this. Some had no majority when their hub decided. Others gave up
 * connecting to a hub that was stopped, and then its process continued, and other ranks connected.
 * A hub says farewell only if no running rank wants to stay.
 *
 * Options: N, the ranks (3 to 5); FAULTS (default 1); MOST_LEAVE, how many may leave.
 * Broken variants, which must fail, and the rule that they break:
 *   STALE        an answer to an offer counts, although a rank has left since   a rank is named
 *   AT_ONCE      a hub that was stopped decides before it reads who has left     a rank is named
 *   EARLY        a hub excludes ranks before any of them was sent to it          a rank is named
 *   HASTE        a hub excludes ranks that have not given up a silent hub yet    no hub
 *   IMPATIENT    a rank waits for its next hub for less time than that needs     no hub
 *   UNSEEN       a rank that reads of a move after its bye ends at once          a rank is named
 *   ABANDONS     a hub whose own rank leaves ends without a successor            a rank is named
 *   ONE_BYE      a rank that follows its hub does not say bye again              a rank waits
 *   PATIENT      a rank that accepted an offer leaves only when it is decided    a rank waits
 *   KEEPS        a rank keeps the hub that it opened for an offer                no hub
 *   ONE_OFFER    a hub ends when the first rank has declined                     no hub
 *   NO_MAJORITY  a hub that replaces a dead one serves without the majority      two hubs */
#ifndef N
#define N 3
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef MOST_LEAVE
#define MOST_LEAVE (N - 1)
#endif
#define RANKS ((1 << N) - 2)
#define bit(r) (1 << (r))
#define in(r, set) (((set) >> (r)) & 1)
#define size(set) \
  (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1) + (((set) >> 4) & 1))
#define lowest(set) ((set) & (0 - (set)))
#define rankOf(b) ((b) == 2 -> 1 : ((b) == 4 -> 2 : ((b) == 8 -> 3 : 4)))
#define runs(p) (in(p, alive) && !in(p, stopped))
/* Its listener refuses connections. */
#define gone(r) (!in(r, alive) || in(r, left & ~claimed))

/* hub to rank; rank to hub (`ended`: the connection) */
mtype = { offer, moved, farewell, present, refused, ended, yes, no, bye };
/* states of a hub; `opened`: it waits for another hub's ranks, `claims`: those of a dead one */
mtype = { closed, opened, claims, serves };
/* states of a rank: it has a hub; connects to the next one; looks for another rank; waits there;
 * has none since its hub's farewell; has none, and knows why */
mtype = { on, dials, looks, waits, alone, told };

chan down[N] = [4] of { mtype, byte };
chan up[N] = [3] of { mtype };

byte alive = (1 << N) - 1, stopped = 0, was_stopped = 0, was_killed = 0;
byte leaves = 0;  /* ranks that have left their communicators */
byte departs = 0; /* of them: those that say bye, now or to the next hub */
byte left = 0;    /* of them: those that have ended */
byte faults = 0;
bool rest = false; /* no fault happens before a time limit has passed */

/* of each rank */
mtype state[N] = on;
byte at[N] = 0;     /* its hub, or the rank where it expects one */
byte host[N] = 0;   /* its last hub */
byte passed[N] = 0; /* ranks that did not answer */
byte opened_by = 0; /* ranks that opened a hub for an offer which is not decided */
byte claimed = 0;    /* ranks that host a hub because the last one had died; they listen */
byte excused = 0;    /* ranks that had no majority */
byte given_up = 0;   /* stopped processes that others wait for no longer; they do not continue */
byte unsure = 0;    /* ranks that cannot tell whether the others have ended or gone on */

/* of the hub in each process */
mtype hub[N] = closed;
byte awaited[N] = 0, members[N] = 0, tried[N] = 0, offered[N] = 0, answered[N] = 0, stale[N] = 0;

#define mayBeNamed(r) (in(r, was_killed | was_stopped))

inline shut(h) {
  hub[h] = closed; claimed = claimed & ~bit(h)
}

inline forget(r) {
  do
  :: nempty(down[r]) -> down[r]?_, _
  :: nempty(up[r]) -> up[r]?_
  :: empty(down[r]) && empty(up[r]) -> break
  od;
  skip
}

/* To all members of a hub, which then has none. */
inline tellAll(h, what, value) {
  m = 1;
  do
  :: m < N && in(m, members[h]) -> down[m]!what, value; m++
  :: m < N && !in(m, members[h]) -> m++
  :: else -> break
  od;
  m = 0;
  members[h] = 0; offered[h] = 0; answered[h] = 0; stale[h] = 0; tried[h] = 0; awaited[h] = 0
}

/* The rank closes the hub that it opened for an offer. */
inline dropOpened(r) {
#ifndef KEEPS
  if
  :: in(r, opened_by) && hub[r] == opened -> shut(r); awaited[r] = 0
  :: else
  fi;
#endif
  opened_by = opened_by & ~bit(r)
}

/* The rank has ended. Its process may still host a hub. */
inline quit(r) {
  dropOpened(r);
  if
  :: (state[r] == on || state[r] == waits) && in(r, members[at[r]]) -> up[r]!ended
  :: else
  fi;
  left = left | bit(r);
  do
  :: nempty(down[r]) -> down[r]?_, _
  :: empty(down[r]) -> break
  od;
  skip
}

inline look(r) {
  forget(r);
  state[r] = looks; passed[r] = 0
}

inline join(r, h) {
  awaited[h] = awaited[h] & ~bit(r);
  members[h] = members[h] | bit(r);
#ifndef ONE_BYE
  if
  :: in(r, departs) && state[r] == dials -> up[r]!bye
  :: else
  fi
#endif
}

/* A member that is gone: an answer to an offer made before is out of date. */
inline drop(h, r) {
  members[h] = members[h] & ~bit(r);
  offered[h] = offered[h] & ~bit(r);
  answered[h] = answered[h] & ~bit(r);
  stale[h] = offered[h]
}

/* The lowest rank that may take over, as this rank knows it. */
#define candidates(r) (RANKS & alive & (~left | claimed) & ~passed[r] & ~bit(host[r]))
#define candidate(r) rankOf(lowest(candidates(r)))

/* The ranks that a new hub knows to have ended. */
#define ended_for(h) (RANKS & (~alive | left & ~(claimed & ~bit(h))))
/* A hub has the majority of the ranks that have not ended. */
#define counted(h) (in(h, unsure) -> RANKS : RANKS & ~ended_for(h))
#define half(h, set) (2 * size(set) == size(counted(h)) && (lowest(counted(h)) & (set)) != 0)
#define here(h) (members[h] & counted(h))
#ifdef NO_MAJORITY
#define majority(h) true
#else
#define majority(h) (2 * size(here(h)) > size(counted(h)) || half(h, here(h)))
#endif

/* A hub reads all that came while its process was stopped before it decides. */
#ifdef AT_ONCE
#define allRead(h) true
#else
#define unread(h, r) (in(r, left & members[h]) && len(up[r]) > 0)
#if N == 3
#define allRead(h) !(unread(h, 1) || unread(h, 2))
#elif N == 4
#define allRead(h) !(unread(h, 1) || unread(h, 2) || unread(h, 3))
#else
#define allRead(h) !(unread(h, 1) || unread(h, 2) || unread(h, 3) || unread(h, 4))
#endif
#endif

#define ends(h) (h == 0 || in(h, leaves))
#define successors(h) (members[h] & ~bit(h))
/* A hub without the majority makes no communicators. */
#define goesOn(h) (in(h, alive) && hub[h] == serves && here(h) != 0 && majority(h))
inline serve(h) {
  hub[h] = serves; tried[h] = 0;
  m = 0;
  do
  :: m < N -> assert(m == h || !(goesOn(m) && goesOn(h))); m++
  :: else -> break
  od;
  m = 0
}

#ifdef ONE_OFFER
#define untried(h) (tried[h] == 0 -> successors(h) : 0)
#else
#define untried(h) (successors(h) & ~tried[h])
#endif
#define handsOver(h) (hub[h] == serves && ends(h) && awaited[h] == 0)

inline readUp(h, r) {
  if
  :: up[r]?yes -> assert(in(r, offered[h])); answered[h] = answered[h] | bit(r)
  :: up[r]?no -> offered[h] = offered[h] & ~bit(r); stale[h] = stale[h] & ~bit(r)
  :: up[r]?bye -> drop(h, r); down[r]!ended, 0
  :: up[r]?ended -> drop(h, r)
  fi
}

inline readDown(r) {
  if
  :: down[r]?offer, x ->
    dropOpened(r);
    if
    :: in(r, leaves) -> up[r]!no
    :: else ->
      hub[r] = opened; awaited[r] = x; members[r] = 0; opened_by = opened_by | bit(r);
      up[r]!yes
    fi
  :: down[r]?moved, x ->
    forget(r);
    if
    :: x == r -> opened_by = opened_by & ~bit(r)
    :: else -> dropOpened(r)
    fi;
    host[r] = x; at[r] = x; state[r] = dials;
#ifdef UNSEEN
    if
    :: in(r, departs) -> left = left | bit(r)
    :: else
    fi
#endif
  :: down[r]?farewell, _ ->
    dropOpened(r); forget(r); state[r] = alone
  :: down[r]?present, _ ->
    state[r] = on; host[r] = at[r];
    if
    :: in(r, departs) -> up[r]!bye
    :: else
    fi
  :: down[r]?refused, _ ->
    dropOpened(r); forget(r); state[r] = told
  :: down[r]?ended, _ ->
    dropOpened(r);
    if
    :: state[r] == waits -> state[r] = looks; forget(r)
    :: state[r] == on && in(r, departs) -> forget(r); left = left | bit(r)
    :: else -> assert(mayBeNamed(host[r])); look(r)
    fi
  fi;
  x = 0
}

/* The rank cannot connect to the hub that it was sent to. */
inline moveFailed(r) {
  if
  :: in(r, departs) -> quit(r)
  :: !in(r, departs) && in(r, was_stopped) -> unsure = unsure | bit(r); look(r)
  :: else -> assert(mayBeNamed(host[r])); look(r)
  fi
}

/* The hub, or the rank that should open one, does not answer. */
inline giveUp(r) {
  given_up = given_up | bit(at[r]);
  members[at[r]] = members[at[r]] & ~bit(r);
  if
  :: state[r] == waits -> passed[r] = passed[r] | bit(at[r]); state[r] = looks; forget(r)
  :: else -> assert(mayBeNamed(host[r])); dropOpened(r); look(r)
  fi
}

#define living (alive & RANKS & (~left | claimed))
#define core (living & ~was_stopped & ~leaves & ~excused)
#define strong \
  (2 * size(core) > size(living) || \
   (2 * size(core) == size(living) && (lowest(living) & core) != 0))

#define mayRead(h, r) (runs(h) && hub[h] != closed && in(r, members[h]) && nempty(up[r]))

proctype Process(byte me) {
  byte x = 0, m = 0;
  end: do
  /* The hub in this process. */
  :: d_step { mayRead(me, 1) -> readUp(me, 1) }
  :: d_step { mayRead(me, 2) -> readUp(me, 2) }
#if N > 3
  :: d_step { mayRead(me, 3) -> readUp(me, 3) }
#endif
#if N > 4
  :: d_step { mayRead(me, 4) -> readUp(me, 4) }
#endif
  :: d_step { runs(me) && hub[me] != closed && answered[me] != 0 && allRead(me) ->
      x = rankOf(lowest(answered[me]));
      answered[me] = answered[me] & ~bit(x);
      if
#ifndef STALE
      :: in(x, stale[me]) -> /* it opened a hub that waits for a rank that has left */
        stale[me] = stale[me] & ~bit(x);
        down[x]!offer, members[me]
#endif
      :: else -> tellAll(me, moved, x); shut(me)
      fi;
      x = 0 }
#ifdef ABANDONS
  :: d_step { runs(me) && handsOver(me) && me != 0 -> tellAll(me, ended, 0); shut(me) }
#endif
  :: d_step { runs(me) && handsOver(me) && untried(me) != 0 ->
      x = rankOf(lowest(untried(me)));
      tried[me] = tried[me] | bit(x); offered[me] = offered[me] | bit(x);
      down[x]!offer, members[me];
      x = 0 }
  :: d_step { runs(me) && handsOver(me) && untried(me) == 0 && offered[me] == 0 ->
      assert((successors(me) & ~leaves) == 0);
      tellAll(me, farewell, 0); shut(me) }
  :: d_step { runs(me) && hub[me] == opened && awaited[me] == 0 ->
      if
      :: members[me] != 0 -> serve(me)
      :: else -> shut(me)
      fi }
  :: d_step { runs(me) && hub[me] == claims && (awaited[me] & ended_for(me)) != 0 ->
      awaited[me] = awaited[me] & ~ended_for(me) }
  :: d_step { runs(me) && hub[me] == claims && awaited[me] == 0 ->
      if
      :: majority(me) ->
        serve(me);
        x = 1;
        do
        :: x < N && in(x, members[me]) -> down[x]!present, 0; x++
        :: x < N && !in(x, members[me]) -> x++
        :: else -> break
        od;
        x = 0
      :: else ->
        assert(!strong || (members[me] & core) == 0);
        excused = excused | members[me];
        tellAll(me, refused, 0); shut(me)
      fi }

  /* The rank in this process. */
  :: d_step { runs(me) && me != 0 && !in(me, left) && nempty(down[me]) -> readDown(me) }
  :: d_step { me != 0 && runs(me) && !in(me, left) && state[me] == dials && runs(at[me]) &&
             (hub[at[me]] == opened || (hub[at[me]] == serves && !in(at[me], claimed))) ->
      if
      :: in(me, awaited[at[me]]) -> join(me, at[me]); state[me] = on
      :: else -> state[me] = told
      fi }
  :: d_step { me != 0 && runs(me) && !in(me, left) && state[me] == looks && candidates(me) == 0 ->
      state[me] = told }
  :: d_step { me != 0 && runs(me) && !in(me, left) && state[me] == looks && candidates(me) != 0 &&
             runs(candidate(me)) ->
      at[me] = candidate(me);
      if
      :: at[me] == me && hub[me] == closed ->
        hub[me] = claims; claimed = claimed | bit(me); members[me] = 0; awaited[me] = RANKS
      :: else
      fi;
      state[me] = waits }
  :: d_step { me != 0 && runs(me) && !in(me, left) && state[me] == waits && gone(at[me]) &&
             !in(me, members[at[me]]) && empty(down[me]) -> state[me] = looks }
  :: d_step { me != 0 && runs(me) && !in(me, left) && state[me] == waits && runs(at[me]) &&
             hub[at[me]] == claims && in(me, awaited[at[me]]) -> join(me, at[me]) }

  /* The rank leaves. If it has opened a hub, or hosts one, it first waits for news of it. */
  :: d_step { me != 0 && runs(me) && !in(me, leaves) && size(leaves) < MOST_LEAVE && !rest ->
      leaves = leaves | bit(me) }
  :: d_step { runs(me) && in(me, leaves & ~departs) && !in(me, opened_by) &&
             !(state[me] == on && at[me] == me && hub[me] != closed) ->
      departs = departs | bit(me);
      if
      :: state[me] == on -> up[me]!bye
      :: else
      fi }
  :: d_step { me != 0 && runs(me) && in(me, departs & ~left) &&
             (state[me] == alone || state[me] == told) -> left = left | bit(me) }
  /* It does not wait for the end of a search. */
  :: d_step { me != 0 && runs(me) && in(me, departs & ~left) &&
             (state[me] == looks || state[me] == waits) && empty(down[me]) -> quit(me) }
  od
}

inline kill(p) {
  if
  :: p != 0 && !in(p, left) && (state[p] == on || state[p] == waits) && in(p, members[at[p]]) &&
     at[p] != p -> up[p]!ended
  :: else
  fi;
  members[p] = members[p] & ~bit(p);
  tellAll(p, ended, 0);
  shut(p);
  alive = alive & ~bit(p); stopped = stopped & ~bit(p); was_killed = was_killed | bit(p)
}

#define wakes (stopped & ~given_up)
#define gaveUp(r, h) \
  ((r) != 0 && host[r] == h && (state[r] == looks || state[r] == waits || state[r] == told))

/* Some ranks have given up connecting to the hub in this process, and others connect to it now. */
inline wake(p) {
  m = 0;
  do
  :: m < N && gaveUp(m, p) -> x = x | bit(m); m++
  :: m < N && !gaveUp(m, p) -> m++
  :: else -> break
  od;
  if
  :: (RANKS & alive & ~left & ~x & ~bit(p)) != 0 -> excused = excused | x
  :: else
  fi;
  stopped = stopped & ~bit(p)
}

proctype Faults() {
  byte x = 0, m = 0, p = 0;
  end: do
  :: atomic { faults < FAULTS && !rest -> select(x : 0 .. N - 1);
      if
      :: in(x, alive) && !(in(x, left) && hub[x] == closed) && !(x == 0 && hub[0] == closed) ->
        faults++;
        if
        :: kill(x)
        :: !in(x, stopped) -> stopped = stopped | bit(x); was_stopped = was_stopped | bit(x)
        fi
      :: else
      fi;
      x = 0 }
  :: atomic { wakes != 0 && !rest -> x = 0;
      do
      :: !in(x, wakes) -> x++
      :: in(x, wakes) && (wakes >> (x + 1)) != 0 -> x++
      :: in(x, wakes) -> break
      od;
      p = x; x = 0; wake(p); p = 0; m = 0; x = 0 }
  :: d_step { !rest -> rest = true }
  od
}

#define follows(r) \
  (state[r] == on && in(r, members[at[r]]) && \
   (goesOn(at[r]) || hub[at[r]] == serves && !(in(r, core) && strong)))
#define good(r) \
  (!runs(r) || in(r, left) || \
   (!in(r, leaves) && \
    (follows(r) || state[r] == alone || (state[r] == told && !(in(r, core) && strong)))))
#if N == 3
#define all(what) (what(1) && what(2))
#elif N == 4
#define all(what) (what(1) && what(2) && what(3))
#else
#define all(what) (what(1) && what(2) && what(3) && what(4))
#endif

#define two(a, b) (goesOn(a) && goesOn(b))
#if N == 3
#define split (two(0, 1) || two(0, 2) || two(1, 2))
#elif N == 4
#define split \
  (two(0, 1) || two(0, 2) || two(0, 3) || two(1, 2) || two(1, 3) || two(2, 3))
#else
#define split \
  (two(0, 1) || two(0, 2) || two(0, 3) || two(1, 2) || two(1, 3) || two(2, 3) || \
   two(0, 4) || two(1, 4) || two(2, 4) || two(3, 4))
#endif

#define limitOfLeaving(r) (runs(r) && in(r, departs & ~left) && state[r] == on && !runs(at[r]))
#ifdef PATIENT
#define limitOfOffer(r) false
#define mayGiveUp(r) (!in(r, leaves & opened_by))
#else
#define mayGiveUp(r) true
#define limitOfOffer(r) (runs(r) && in(r, leaves & ~departs & opened_by))
#endif
#define limitOfMove(r) (runs(r) && !in(r, left) && state[r] == dials)
#define limitOfSearch(r) (runs(r) && !in(r, left) && state[r] == looks)
#define limitOfSilence(r) \
  (runs(r) && !in(r, left | departs) && in(at[r], stopped) && mayGiveUp(r) && \
   (state[r] == on && in(r, members[at[r]]) || state[r] == waits))
/* Longer than those after which the other rank opens a hub, or has ended. */
#ifdef IMPATIENT
#define mayOpen(r) (hub[r] == claims)
#else
#define mayOpen(r) \
  (hub[r] == claims || limitOfLeaving(r) || limitOfOffer(r) || limitOfSilence(r) || \
   limitOfMove(r) || limitOfSearch(r))
#endif
#define limitOfWait(r) \
  (runs(r) && !in(r, left) && state[r] == waits && !in(at[r], stopped) && \
   !(runs(at[r]) && mayOpen(at[r])))
#ifdef EARLY
#define wereSent(h) true
#else
#define wereSent(h) (members[h] != 0)
#endif
#define mayExclude(h) (hub[h] == claims && !mayCome(h) || hub[h] == opened && wereSent(h))
/* Longer than the time in which all ranks give up a silent hub. */
#ifdef HASTE
#define mayCome(h) false
#else
#define comes(h, r) \
  (in(r, awaited[h]) && (limitOfSilence(r) || limitOfMove(r) || limitOfSearch(r)))
#if N == 3
#define mayCome(h) (comes(h, 1) || comes(h, 2))
#elif N == 4
#define mayCome(h) (comes(h, 1) || comes(h, 2) || comes(h, 3))
#else
#define mayCome(h) (comes(h, 1) || comes(h, 2) || comes(h, 3) || comes(h, 4))
#endif
#endif
#define limitOfComing(h) \
  (runs(h) && (hub[h] == opened || hub[h] == claims) && awaited[h] != 0 && mayExclude(h))
#define limitOfHandOver(h) (runs(h) && handsOver(h) && offered[h] != 0)
#define noLimit(r) \
  !(limitOfLeaving(r) || limitOfOffer(r) || limitOfMove(r) || limitOfSearch(r) || \
    limitOfSilence(r) || limitOfWait(r) || limitOfComing(r) || limitOfHandOver(r))

/* Time passes. */
active proctype Clock() {
  byte x = 0, m = 0;
  end: do
  :: atomic { timeout && all(noLimit) && !limitOfHandOver(0) -> assert(all(good)); assert(!split); rest = false }
  :: atomic { timeout && limitOfHandOver(0) ->
      assert((successors(0) & alive & ~stopped & ~leaves) == 0);
      tellAll(0, farewell, 0); shut(0); rest = false }
  :: atomic { timeout && !all(noLimit) ->
      if
      :: x = 1
      :: x = 2
#if N > 3
      :: x = 3
#endif
#if N > 4
      :: x = 4
#endif
      fi;
      if
      :: limitOfLeaving(x) -> quit(x)
      :: limitOfOffer(x) ->
        departs = departs | bit(x);
        if
        :: state[x] == on -> up[x]!bye
        :: else
        fi
      :: limitOfMove(x) -> moveFailed(x)
      :: limitOfSearch(x) -> passed[x] = passed[x] | bit(candidate(x))
      :: limitOfSilence(x) -> giveUp(x)
      :: limitOfWait(x) -> state[x] = told
      :: limitOfComing(x) ->
        m = 1;
        do
        :: m < N ->
          assert(!in(m, awaited[x]) || hub[x] == claims || members[x] == 0 || mayBeNamed(m) ||
                 in(x, was_stopped)); m++
        :: else -> break
        od;
        m = 0;
        awaited[x] = 0
      :: limitOfHandOver(x) ->
        assert((successors(x) & alive & ~stopped & ~leaves) == 0);
        tellAll(x, farewell, 0); shut(x)
      :: else
      fi;
      rest = false; x = 0 }
  od
}

init {
  byte r = 0;
  atomic {
    hub[0] = serves; members[0] = RANKS;
    do
    :: r < N -> run Process(r); r++
    :: else -> break
    od;
    run Faults()
  }
}
