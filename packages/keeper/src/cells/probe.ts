import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CellSpec } from './cell.ts'

/** Lends a spec that holds nothing, to see whether and how a cell starts. Root tries it as a user whom nobody is. */
export async function withProbeSpec<T>(use: (spec: CellSpec) => Promise<T>): Promise<T> {
  const runAs = process.getuid?.() === 0 ? probeUser : null
  const folder = await mkdtemp(join(tmpdir(), 'anchorhold-probe-'))
  const [workspace, home, scratch] = [join(folder, 'workspace'), join(folder, 'home'), join(folder, 'cell')]
  try {
    for (const each of [workspace, home, scratch]) await mkdir(each)
    if (runAs !== null) for (const each of [folder, workspace, home, scratch]) await chown(each, runAs.uid, runAs.gid)
    const nothing = { windows: null, mounts: [], covers: [], root: null, cgroups: [] }
    return await use({ name: 'probe', workspace, home, scratch, limits: probeLimits, runAs, ...nothing })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Whoever hands control groups to a probe hands them to this user. */
export const probeUser = { uid: 1_899_999_999, gid: 1_899_999_999 }

const probeLimits = {
  memoryBytes: 2 ** 28,
  processesMax: 64,
  cpus: 1,
  diskBytes: 2 ** 26,
  fileBytes: 2 ** 24,
  openFilesMax: 256,
  tmpBytes: 2 ** 20,
}
