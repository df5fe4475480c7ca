import { ownerMark } from '@anchorhold/link/owner'
import { Failure } from '@anchorhold/protocol/failures'
import type { KeeperPlace } from '@anchorhold/protocol/keeper-start'
import type { ContainerEngine } from '@anchorhold/protocol/rungs'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { packageFolder } from './package-folder.ts'

/** The programs that keepers, gate and cells run, in one folder that every session's user can reach. */
export type Runtime = {
  readonly node: string
  readonly keeper: string
  readonly gate: string
  readonly rehearsal: string
  readonly doctor: string
  readonly forwarder: string
  readonly reader: string
  readonly inside: string
  readonly reap: string
  readonly agent: string
  readonly agentVersion: string
  /** What makes containers; Podman without root where it is not said. */
  readonly engine?: ContainerEngine
}

/** The agent that sessions have. */
export const agentOf = ({ agent, agentVersion }: Runtime): KeeperPlace['agent'] => ({
  ...{ driver: 'claude', program: agent, version: agentVersion },
})

const scripts = [
  'keeper.mjs',
  'gate.mjs',
  'rehearsal.mjs',
  'doctor.mjs',
  'forwarder.mjs',
  'reader.mjs',
  'inside.cjs',
  'reap.mjs',
  'watcher.mjs',
] as const

/** Brings the runtime of this release to its place, once. Live keepers go on with the folder they were started from, so an
 *  update never pulls a program out from under a running session; and a clone under /root stays unreadable for cells. */
export function stageRuntime(dist: string, runtimes: string): Runtime {
  const agent = findAgent()
  const hash = createHash('sha256')
  // By size and time: reading hundreds of megabytes would be felt at every start.
  for (const file of [...scripts.map((script) => join(dist, script)), agent.program]) {
    const { size, mtimeMs } = statSync(file)
    hash.update(`${file} ${size} ${mtimeMs} `)
  }
  hash.update(`${agent.version} ${process.version}`)
  const folder = join(runtimes, hash.digest('hex').slice(0, 16))
  if (!existsSync(folder)) {
    const fresh = mkdtempSync(join(runtimes, `new-${ownerMark()}-`))
    for (const script of scripts) place(join(dist, script), join(fresh, script), 0o644)
    place(process.execPath, join(fresh, 'node'), 0o755)
    place(agent.program, join(fresh, 'claude'), 0o755)
    chmodSync(fresh, 0o755)
    try {
      renameSync(fresh, folder)
    } catch (error) {
      rmSync(fresh, { recursive: true })
      if (!existsSync(folder)) throw error
    }
  }
  const at = (name: string) => join(folder, name)
  return {
    node: at('node'),
    keeper: at('keeper.mjs'),
    gate: at('gate.mjs'),
    rehearsal: at('rehearsal.mjs'),
    doctor: at('doctor.mjs'),
    forwarder: at('forwarder.mjs'),
    reader: at('reader.mjs'),
    inside: at('inside.cjs'),
    reap: at('reap.mjs'),
    agent: at('claude'),
    agentVersion: agent.version,
  }
}

/** A second name for the file where the file system can do that, a copy elsewhere. */
function place(from: string, to: string, mode: number): void {
  if ((statSync(from).mode & 0o777) === mode) {
    try {
      return linkSync(from, to)
    } catch {
      // Another file system, or one without hard links.
    }
  }
  copyFileSync(from, to, constants.COPYFILE_FICLONE)
  chmodSync(to, mode)
}

/** The CLI that came with the SDK, for this machine. */
function findAgent(): { readonly program: string; readonly version: string } {
  const sdk = packageFolder('@anthropic-ai/claude-agent-sdk')
  if (sdk === null)
    throw new Failure('cell_unavailable', 'Cannot find "@anthropic-ai/claude-agent-sdk": it is not installed', {
      hint: 'Run npm ci',
    })
  const { version, claudeCodeVersion } = JSON.parse(readFileSync(join(sdk, 'package.json'), 'utf8')) as Record<string, string>
  // npm installs the one that fits the machine's C library, so whichever is there is the right one.
  const name = `claude-agent-sdk-${process.platform}-${process.arch}`
  const program = [name, `${name}-musl`].map((one) => join(sdk, '..', one, 'claude')).find((path) => existsSync(path))
  if (program === undefined) {
    throw new Failure('cell_unavailable', `Cannot find the agent "@anthropic-ai/${name}": it is not installed`, {
      hint: 'Run npm ci without --omit=optional',
    })
  }
  return { program, version: claudeCodeVersion ?? version ?? 'unknown' }
}
