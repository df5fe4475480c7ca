import type { Clock } from '@anchorhold/link/clock'
import type { Disk } from '@anchorhold/link/disk'
import { type MemoryDisk, memoryDisk } from '@anchorhold/link/memory-disk'
import type { Connection, Heard, Wire } from '@anchorhold/link/wire'

/** A machine that exists in memory only. What happens on it, and in which order, follows from its random numbers alone: each
 *  step ends only when nothing more can happen without the machine's own doing. */
export interface Machine {
  readonly elapsed: number
  readonly random: () => number
  process(name: string): Process
  /** Ends a process between two of its steps, as kill -9 does. */
  kill(process: Process): void
  /** Ends all of them; what was not synced may be gone. */
  powerCut(): void
  /** The time of day jumps. */
  jump(ms: number): void
  /** Puts an empty file there, to stay. */
  put(disk: string, file: string): void
  /** Calls back later, whatever lives then. */
  later(ms: number, then: () => void): void
  /** Runs what is due next; false when nothing is left to happen within that time. */
  step(withinMs?: number): Promise<boolean>
}

export interface Process {
  readonly pid: number
  readonly name: string
  readonly alive: boolean
  readonly clock: Clock
  readonly wire: Wire
  /** Takes the lock, and holds it until this process ends; false when another one has it. */
  lock(path: string): boolean
  release(path: string): void
  isHeld(path: string): boolean
  disk(path: string): Disk & Pick<MemoryDisk, 'failSync' | 'failWrite'>
  /** What another process left there, to be read. */
  look(path: string): Disk
  /** A place of the disk that is written at once, and that a process that dies leaves as it is. */
  readonly files: Map<string, string>
  onDeath(then: () => void): void
  /** Resolves after a while that nobody can foresee. */
  sometime(atMostMs?: number): Promise<void>
}

type Task = { readonly dueMs: number; readonly order: number; readonly run: () => void; cancelled: boolean }

const startOfTime = 1_700_000_000_000

export function machine(random: () => number): Machine {
  let elapsed = 0
  let offset = 0
  let order = 0
  // The first is 2: none that may be ended is 1.
  let pids = 1
  const tasks: Task[] = []
  const processes = new Map<number, Process & { die(): void }>()
  const locks = new Map<string, number>()
  const disks = new Map<string, MemoryDisk>()
  const files = new Map<string, string>()
  const listeners = new Map<string, { readonly owner: Process; accept(from: Process, heard: Heard): Connection }>()

  function at(dueMs: number, run: () => void): Task {
    const task = { dueMs, order: order++, run, cancelled: false }
    // Kept in order, the next one last.
    let index = tasks.length
    while (index > 0 && tasks[index - 1]!.dueMs <= dueMs) index--
    tasks.splice(index, 0, task)
    return task
  }
  const whileAlive = (owner: Process, run: () => void) => () => {
    if (owner.alive) run()
  }
  /** How long something takes on the machine: mostly hardly anything, and now and then longer than what comes after it. */
  const delay = (atMostMs = 3) => (random() < 0.6 ? random() * 0.2 : random() * atMostMs)

  /** Two ends between two processes. Frames arrive in order, and the news that the other end is gone after all of them. */
  function connect(from: Process, to: Process): [End, End] {
    const ends = [end(from), end(to)] as const
    ends[0].other = ends[1]
    ends[1].other = ends[0]
    return [...ends]
  }
  type End = { readonly connection: Connection; heard: Heard | null; other: End; lastMs: number; open: boolean; over(): void }
  function end(owner: Process): End {
    const self: End = {
      heard: null,
      other: null as unknown as End,
      lastMs: 0,
      open: true,
      /** This end is gone. */
      over() {
        if (!self.open) return
        self.open = false
        if (owner.alive)
          at(
            elapsed,
            whileAlive(owner, () => self.heard?.closed()),
          )
        arrive(() => self.other.over())
      },
      connection: {
        get open() {
          return self.open
        },
        backlogBytes: 0,
        send(...frames) {
          if (!self.open) return
          for (const frame of frames) {
            const text = JSON.stringify(frame)
            arrive(() => {
              const { other } = self
              if (!other.open) return
              try {
                other.heard?.frame(JSON.parse(text))
              } catch {
                other.over()
              }
            })
          }
        },
        drained: async () => {},
        close: () => self.over(),
      },
    }
    /** At the other end, after all that was sent before. */
    function arrive(run: () => void): void {
      self.lastMs = Math.max(self.lastMs, elapsed + delay())
      at(self.lastMs, run)
    }
    owner.onDeath(() => self.over())
    return self
  }

  function process(name: string): Process {
    const pid = ++pids
    let alive = true
    const deaths: (() => void)[] = []
    const opened = new Map<string, MemoryDisk>()
    const self: Process & { die(): void } = {
      pid,
      name,
      get alive() {
        return alive
      },
      files,
      clock: {
        now: () => startOfTime + offset + Math.floor(elapsed),
        elapsed: () => elapsed,
        after(ms, then) {
          const task = at(elapsed + ms, whileAlive(self, then))
          return () => {
            task.cancelled = true
          }
        },
        soon: (then) => void at(elapsed + delay(), whileAlive(self, then)),
      },
      wire: {
        async connect(path, heard) {
          await self.sometime()
          const listener = listeners.get(path)
          if (listener === undefined || !listener.owner.alive) throw new Error(`connect ECONNREFUSED ${path}`)
          return listener.accept(self, heard)
        },
        async listen(path, onConnection) {
          await self.sometime()
          const ends = new Set<End>()
          const listener = {
            owner: self as Process,
            accept(from: Process, heard: Heard) {
              const [near, far] = connect(from, self)
              near.heard = heard
              far.heard = onConnection(far.connection)
              ends.add(far)
              return near.connection
            },
          }
          listeners.set(path, listener)
          return {
            async close() {
              if (listeners.get(path) === listener) listeners.delete(path)
              for (const one of ends) one.over()
              await self.sometime()
            },
          }
        },
      },
      lock(path) {
        if (locks.has(path)) return false
        locks.set(path, pid)
        return true
      },
      release(path) {
        if (locks.get(path) === pid) locks.delete(path)
      },
      isHeld: (path) => locks.has(path),
      disk(path) {
        const disk = disks.get(path) ?? memoryDisk()
        disks.set(path, disk)
        opened.set(path, disk)
        return {
          ...disk,
          async sync() {
            await self.sometime(10)
            return disk.sync()
          },
        }
      },
      look: (path) => disks.get(path) ?? memoryDisk(),
      onDeath: (then) => void deaths.push(then),
      sometime: (atMostMs) =>
        new Promise((resolve) => {
          at(elapsed + delay(atMostMs), whileAlive(self, resolve))
        }),
      die() {
        if (!alive) return
        alive = false
        processes.delete(pid)
        for (const [path, disk] of opened) if (disks.get(path) === disk) disks.set(path, disk.kill())
        for (const [path, holder] of locks) if (holder === pid) locks.delete(path)
        for (const then of deaths) then()
      },
    }
    processes.set(pid, self)
    return self
  }

  return {
    get elapsed() {
      return elapsed
    },
    random,
    process,
    kill: (one) => processes.get(one.pid)?.die(),
    powerCut() {
      for (const one of processes.values()) one.die()
      for (const [path, disk] of disks)
        disks.set(
          path,
          disk.powerCut((bytes) => Math.floor(random() * (bytes + 1))),
        )
      files.clear()
    },
    jump(ms) {
      offset += ms
    },
    put(path, file) {
      const disk = disks.get(path) ?? memoryDisk()
      disks.set(path, disk)
      disk.use(file)
      void disk.sync()
    },
    later: (ms, then) => void at(elapsed + ms, then),
    async step(withinMs = Infinity) {
      // Whatever follows by promises alone from what was done last happens now.
      await new Promise((resolve) => setImmediate(resolve))
      let task = tasks.pop()
      while (task?.cancelled) task = tasks.pop()
      if (task === undefined) return false
      if (task.dueMs > elapsed + withinMs) {
        tasks.push(task)
        return false
      }
      elapsed = Math.max(elapsed, task.dueMs)
      task.run()
      return true
    },
  }
}
