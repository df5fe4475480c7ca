import { sizeWords } from '@anchorhold/core/size-words'
import { readFileSync } from 'node:fs'
import { setImmediate as breath } from 'node:timers/promises'
import { deviceNumber, isSegment, isSharedMemory, type Nameless, namelessOf } from './nameless.ts'
import { type ProcessId, readProc, threadsOf, treeOf } from './processes.ts'
import { atMost, gate, shareThatMatters, twice, type Watcher } from './watchdog.ts'

/** Two, since what is shared may take long to find, and meanwhile the other must not be blind. Do not stop: a jump above the limit
 *  between two looks. */
export function memoryWatchers(
  limitBytes: number,
  roots: () => readonly number[],
  machine: () => MachineMemory = machineMemory,
): readonly Watcher[] {
  return [residentWatcher(limitBytes, roots, machine), sharedWatcher(limitBytes, roots, machine)]
}

/** Sums up what the processes have resident, in the swap and in page tables. */
function residentWatcher(limitBytes: number, roots: () => readonly number[], machine: () => MachineMemory): Watcher {
  const measured = gate(limitBytes, machine().available)
  async function look(): Promise<string | null> {
    if (!measured.isDue(machine().available)) return null
    const processes = allTold(treeOf(roots()))
    // The share of each process is dear to learn, and never more than all it has resident.
    if (sum(processes.map(residentBytes)) <= limitBytes) return null
    return ifAbove(limitBytes, (await sharesOf(processes)).bytes)
  }
  return { look }
}

/** Adds what they hold by descriptors and need not have mapped. What they hold without a descriptor is told by nobody, so it is judged by
 *  the machine's, and only when that runs short: a cell that takes nothing should not end for what others take. */
function sharedWatcher(limitBytes: number, roots: () => readonly number[], machine: () => MachineMemory): Watcher {
  const atStart = machine()
  const measured = gate(limitBytes, atStart.available)
  const shared = atMost(atStart.shared + atStart.swapped)
  const isHiding = twice()
  // They outlive every trace of them in a process, and are listed in their own namespace alone.
  let hadSegments = false
  async function look(): Promise<string | null> {
    const now = machine()
    const sharedAtMost = shared.see(now.shared + now.swapped)
    if (!measured.isDue(now.available) || sharedAtMost <= limitBytes * shareThatMatters) return null
    const tree = treeOf(roots())
    const processes = allTold(tree)
    if (sum(processes.map(residentBytes)) + sharedAtMost <= limitBytes) return null

    const nameless = await namelessOf(tree)
    const objects = sharedMemoryIn(nameless)
    const reason = ifAbove(limitBytes, await heldBytes(processes, objects, limitBytes))
    if (reason !== null) return reason

    hadSegments ||= nameless.unsized.some(({ path }) => isSegment(path))
    const mayHide = hadSegments || nameless.isPartial || nameless.unsized.some(({ path }) => isSharedMemory(path))
    if (!mayHide) shared.know(sum([...objects.values()]))
    const hidden = now.shared - atStart.shared - sum([...objects.values()])
    if (!isHiding(mayHide) || now.available >= limitBytes || hidden <= limitBytes) return null
    return `shared memory of the machine grew by ${sizeWords(hidden)} until little was left, and how much of it is the cell's cannot be seen (the limit is ${sizeWords(limitBytes)})`
  }
  return { look }
}

const ifAbove = (limitBytes: number, bytes: number) =>
  bytes <= limitBytes ? null : `its processes held ${sizeWords(bytes)} of memory, and the limit is ${sizeWords(limitBytes)}`

/** Where the kernel tells of a process: at its number, or at that of another thread where the first one has ended, which keeps nothing. */
type Told = { readonly status: string; readonly read: (name: string) => string | null }

function told(pid: number): Told | null {
  const status = readProc(pid, 'status')
  if (status === null) return null
  if (status.includes('\nVmRSS:')) return { status, read: (name) => readProc(pid, name) }
  for (const thread of threadsOf(pid)) {
    const read = (name: string) => readProc(pid, `task/${thread}/${name}`)
    const its = thread === pid ? null : read('status')
    if (its?.includes('\nVmRSS:')) return { status: its, read }
  }
  return null // it has ended, and waits to be reaped
}

const allTold = (processes: readonly ProcessId[]) => processes.flatMap(({ pid }) => told(pid) ?? [])

/** What each has of what it shares with others, summed up; and those that have any shared memory mapped. */
async function sharesOf(processes: readonly Told[]): Promise<{ readonly bytes: number; readonly sharers: readonly Told[] }> {
  let bytes = 0
  const sharers: Told[] = []
  for (const each of processes) {
    const rollup = each.read('smaps_rollup')
    bytes += proportionalBytes(each, rollup)
    if (kilobytes(rollup, 'Pss_Shmem') !== 0) sharers.push(each)
    await breath()
  }
  return { bytes, sharers }
}

/** With these objects, no more exactly than it takes to tell whether it is above the limit. */
async function heldBytes(processes: readonly Told[], objects: ReadonlyMap<string, number>, limitBytes: number): Promise<number> {
  const held = sum([...objects.values()])
  const resident = sum(processes.map(residentBytes)) + held
  if (resident <= limitBytes) return resident
  const { bytes, sharers } = await sharesOf(processes)
  if (held === 0 || bytes + held <= limitBytes) return bytes + held
  // What is mapped of these is among the shares already.
  const unmapped = new Map(objects)
  for (const each of sharers) {
    for (const [id, share] of sharesIn(each.read('smaps') ?? '')) {
      const left = unmapped.get(id)
      if (left !== undefined) unmapped.set(id, Math.max(0, left - share))
    }
    await breath()
  }
  return bytes + sum([...unmapped.values()])
}

const sharedMemoryIn = ({ files }: Nameless) =>
  new Map([...files].flatMap(([id, { path, bytes }]) => (isSharedMemory(path) ? [[id, bytes] as const] : [])))

/** proc(5), /proc/PID/smaps: what a process has of each file that it has mapped, by device and inode. */
export function* sharesIn(smaps: string): Generator<[string, number]> {
  let id = ''
  for (const [, major, minor, inode, share] of smaps.matchAll(
    /^[0-9a-f]+-[0-9a-f]+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)|^(?:Swap)?Pss: +(\d+) kB$/gm,
  )) {
    if (inode !== undefined) id = `${deviceNumber(parseInt(major ?? '', 16), parseInt(minor ?? '', 16))}:${inode}`
    else yield [id, Number(share) * 1024]
  }
}

/** Page tables are the cell's too: reading one byte in two million takes next to nothing else. */
const residentBytes = ({ status }: Told) => kilobytesOf(status, ['VmRSS', 'VmSwap', 'VmPTE'])
const proportionalBytes = (told: Told, rollup: string | null) =>
  rollup === null ? residentBytes(told) : kilobytesOf(rollup, ['Pss', 'SwapPss']) + kilobytesOf(told.status, ['VmPTE'])

/** Of the whole machine, in bytes. */
export type MachineMemory = { readonly available: number; readonly shared: number; readonly swapped: number }

function machineMemory(): MachineMemory {
  const text = readFileSync('/proc/meminfo', 'latin1')
  return {
    available: kilobytesOf(text, ['MemAvailable']),
    shared: kilobytesOf(text, ['Shmem']),
    swapped: kilobytesOf(text, ['SwapTotal']) - kilobytesOf(text, ['SwapFree']),
  }
}

const kilobytesOf = (text: string, names: readonly string[]) => sum(names.map((name) => kilobytes(text, name) ?? 0))

function kilobytes(text: string | null, name: string): number | null {
  const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text ?? '')?.[1]
  return found === undefined ? null : Number(found) * 1024
}

const sum = (figures: readonly number[]) => figures.reduce((total, each) => total + each, 0)

/** For a cell that may not outlive it when the kernel holds one of its processes to the limit. */
export function outOfMemoryWatcher(limitBytes: number, ranOut: () => boolean, oneForAll: () => boolean): Watcher {
  return {
    look: async () =>
      ranOut() && oneForAll() ? `it wanted more memory than the ${sizeWords(limitBytes)} that it may have` : null,
  }
}
