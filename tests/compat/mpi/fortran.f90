! Collectives of a Fortran program: MPI_IN_PLACE, MPI_BOTTOM, uneven blocks, a nonblocking call.
! Compiled once for each way in which Fortran finds MPI (MPIF_H, USE_MPI or USE_MPI_F08 is defined).
! With LARGE_COUNTS, mpi_f08 takes the large-count form on some ranks.
program fortran
#ifdef USE_MPI
  use mpi
#endif
#ifdef USE_MPI_F08
  use mpi_f08
#endif
  implicit none
#ifdef MPIF_H
  include 'mpif.h'
#endif
  integer, parameter :: n = 1000
  double precision, asynchronous :: x(n)
  double precision :: y(n)
  integer, asynchronous :: numbers(n)
  integer :: lengths(1) = n
  integer(MPI_ADDRESS_KIND) :: at(1)
  integer, allocatable :: counts(:), offsets(:), gathered(:)
  logical :: truth
  integer :: rank, ranks, i, ierror
#ifdef USE_MPI_F08
  type(MPI_Request) :: request
  type(MPI_Datatype) :: absolute
#else
  integer :: request, absolute
#endif

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)

  x = real(rank + 1, kind(x))
  call MPI_Allreduce(x, y, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check(all(y == ranks * (ranks + 1) / 2), 'Allreduce')

#if defined(USE_MPI_F08) && defined(LARGE_COUNTS)
  y = 0
  if (mod(rank, 2) == 0) then
    call MPI_Allreduce(x, y, int(n, MPI_COUNT_KIND), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       MPI_COMM_WORLD, ierror)
  else
    call MPI_Allreduce(x, y, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  end if
  call check(all(y == ranks * (ranks + 1) / 2), 'Allreduce with large counts on some ranks')
#endif

  y = real(rank + 1, kind(x))
  call MPI_Allreduce(MPI_IN_PLACE, y, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
  call check(all(y == ranks), 'Allreduce in place')

  numbers = rank
  call MPI_Iallreduce(MPI_IN_PLACE, numbers, n, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, request, &
                      ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call check(all(numbers == 0), 'Iallreduce in place')

  ! A variable at its absolute address, sent from MPI_BOTTOM.
  x = -1
  if (rank == 0) x = 42
  call MPI_Get_address(x, at(1), ierror)
  call MPI_Type_create_hindexed(1, lengths, at, MPI_DOUBLE_PRECISION, absolute, ierror)
  call MPI_Type_commit(absolute, ierror)
  call MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD, ierror)
  call MPI_Type_free(absolute, ierror)
  call check(all(x == 42), 'Bcast from MPI_BOTTOM')

  allocate(counts(ranks), offsets(ranks), gathered(ranks * (ranks + 1) / 2))
  do i = 1, ranks
    counts(i) = i
    offsets(i) = i * (i - 1) / 2
  end do
  numbers = rank
  gathered = -1
  call MPI_Gatherv(numbers, rank + 1, MPI_INTEGER, gathered, counts, offsets, MPI_INTEGER, &
                   ranks - 1, MPI_COMM_WORLD, ierror)
  if (rank == ranks - 1) then
    do i = 1, ranks
      call check(all(gathered(offsets(i) + 1:offsets(i) + counts(i)) == i - 1), 'Gatherv')
    end do
  end if

  truth = rank == 0
  call MPI_Allreduce(MPI_IN_PLACE, truth, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
  call check(truth, 'Allreduce of a LOGICAL')

  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
  if (rank == 0) print '(a)', 'fortran: ok'

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    print '(a, i0, 2a)', 'FAILED: rank ', rank, ': ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end program
