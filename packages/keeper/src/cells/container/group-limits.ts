import { sizeWords } from '@anchorhold/core/size-words'
import { join } from 'node:path'
import type { LimitInForce, LimitName } from '@anchorhold/protocol/rungs'
import type { CellLimits } from '../cell.ts'
import { readText, type ReadText } from '../install.ts'
import type { OwnTasks } from '../limits/limits.ts'
import { readProc } from '../limits/processes.ts'

/** What the control groups of a process say; null where it cannot be read. */
export type GroupsSeen = {
  readonly memoryBytes: number | null
  readonly tasksMax: number | null
  readonly cpus: number | null
}

/** Reads the groups that an engine has put a process in, of either version: cgroups(7). */
export function groupsOf(pid: number, read: ReadText = readText, cgroup = readProc(pid, 'cgroup')): GroupsSeen {
  const lines = (cgroup ?? '').split('\n').map((line) => line.split(':'))
  const folders = (controller: string) =>
    lines.flatMap(([, names = '', path = '']) => {
      if (names === '') return ['', 'unified'].map((root) => join('/sys/fs/cgroup', root, path))
      return names.split(',').includes(controller)
        ? [join('/sys/fs/cgroup', controller, path), join('/sys/fs/cgroup', names, path)]
        : []
    })
  const text = (controller: string, file: string) =>
    folders(controller)
      .map((folder) => read(join(folder, file)))
      .find((each) => each !== null) ?? null
  const figure = (value: string | null) => (value !== null && /^\d+$/.test(value) ? Number(value) : null)
  const [quota, period] = (text('cpu', 'cpu.max') ?? '').split(' ').map(figure)
  const share = (of: number | null | undefined, by: number | null | undefined) => (of == null || by == null ? null : of / by)
  return {
    memoryBytes: figure(text('memory', 'memory.max')) ?? figure(text('memory', 'memory.limit_in_bytes')),
    tasksMax: figure(text('pids', 'pids.max')),
    cpus: share(quota, period) ?? share(figure(text('cpu', 'cpu.cfs_quota_us')), figure(text('cpu', 'cpu.cfs_period_us'))),
  }
}

/** Those of the limits that the groups were read to hold. What could not be read back is left to whoever else holds it. */
export function limitsByGroup(
  limits: CellLimits,
  own: OwnTasks,
  seen: GroupsSeen | null,
): Partial<Record<LimitName, LimitInForce>> {
  const how = 'control group of the engine, read back'
  const found: LimitInForce[] = []
  if (seen?.memoryBytes != null && seen.memoryBytes <= limits.memoryBytes)
    found.push({ name: 'memory', value: sizeWords(seen.memoryBytes), enforcement: 'enforced', how })
  if (seen?.tasksMax != null && seen.tasksMax <= limits.processesMax + own.tasks)
    found.push({
      ...{ name: 'processes', value: String(seen.tasksMax), enforcement: 'enforced' },
      how: `${how}, ${own.tasks} of them ${own.whose}`,
    })
  if (seen?.cpus != null && seen.cpus <= limits.cpus + 0.01)
    found.push({ name: 'cpu', value: `${seen.cpus} CPUs`, enforcement: 'enforced', how })
  return Object.fromEntries(found.map((limit) => [limit.name, limit]))
}
