import { trialsIn } from '@anchorhold/daemon/processes/left-behind'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Rung } from '@anchorhold/protocol/rungs'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { keepersOf, processesOf } from '../e2e/host.ts'
import { type Installation, installation, until } from '../e2e/installation.ts'
import { seeded } from '../seeded.ts'

const sessions = Number(process.env.CHAOS_ORPHANS ?? 200)
const seed = Number(process.env.CHAOS_SEED ?? 1)
const atOnce = 6
/** A machine under software emulation takes too long for hundreds of them; it is named to be tried. */
const rungs = (process.env.CHAOS_RUNGS ?? 'bwrap,container,gvisor').split(',') as Rung[]

test(`${sessions} sessions under random kills leave no process, mount, control group or folder (${rungs.join(', ')}, seed ${seed})`, async () => {
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)]
  await using it = await installation({ config: 'pools:\n  bwrap: { min: 1, max: 2 }\n' })
  const { rungs: found } = await it.api.doctor()
  const available = rungs.filter((rung) => found.find((one) => one.rung === rung)?.available)
  const ids: SessionId[] = []
  const seen = new Set<string>()
  const look = () => left(it, 'sessions').forEach((id) => seen.add(id))
  // What an installation has once it has run: programs, compiled programs, what was found of the machine.
  await it.run('say hello').then(({ session }) => putAway(session.id))
  await it.cli(['down', '--all'])
  const baseline = bytesOf(it.state)
  await it.up()
  const tally = { keeper: 0, engine: 0, daemon: 0 }

  async function kill(): Promise<void> {
    const victim = pick(['keeper', 'engine', 'daemon', 'keeper', 'engine'] as const)!
    if (victim === 'daemon') {
      process.kill((JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }).pid, 'SIGKILL')
      await it.upByItself()
    } else {
      const isKeeper = ({ argv }: { readonly argv: string }) => argv.includes('/keeper.mjs')
      const list = victim === 'keeper' ? keepersOf(it.state).filter(isKeeper) : processesOf(it.state).filter(isEngine)
      const target = pick(list)
      if (target === undefined) return
      try {
        process.kill(target.pid, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
    }
    tally[victim]++
  }

  async function putAway(id: SessionId): Promise<void> {
    await until(() => restful(it, id))
    await it.api.archive({ params: { id } })
    await it.api.purgeSession({ params: { id }, body: { confirm: id } })
  }

  for (let made = 0; made < sessions; made += atOnce) {
    const batch = Array.from({ length: Math.min(atOnce, sessions - made) }, () => pick(available))
    const mine: SessionId[] = []
    for (const rung of batch) {
      // The daemon may be on its way back.
      const session = await until(() =>
        it.api
          .createSession({ body: { rung: rung!, prompt: { text: 'run `sleep 0.2; echo made > file; sleep 0.2`' } } })
          .catch(() => null),
      )
      mine.push(session.id)
      if (random() < 0.7) {
        await wait(random() * 600)
        await kill()
      }
    }
    look()
    // Not all at the end: a live agent holds a few hundred megabytes.
    await Promise.all(mine.map(putAway))
    ids.push(...mine)
  }
  expect((await it.cli(['down', '--all'])).code).toBe(0)
  await until(() => processesOf(it.state).length === 0)
  // Whoever comes next finds and removes what a crash has left.
  await it.up()
  await until(() => readdirSync(join(it.state, 'sessions')).every((id) => !ids.includes(id as SessionId)))
  await until(() => trialsIn(tmpdir()).length === 0)
  look()
  await it.cli(['down', '--all'])
  await until(() => processesOf(it.state).length === 0)
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(it.state)
  // Places of the pool and trials of the doctor have groups as well.
  const isOurs = (name: string) => seen.has(name) || ids.includes(name as SessionId)
  const isLeft = (name: string) => /^(?:doctor|launcher)-\d+$/.test(name) && !existsSync(`/proc/${name.split('-')[1]}`)
  expect(controlGroups().filter((name) => isOurs(name) || isLeft(name))).toEqual([])
  for (const kind of ['sessions', 'windows']) expect(left(it, kind).filter((id) => ids.includes(id as SessionId))).toEqual([])
  expect(left(it, 'launched')).toEqual([])
  expect(bytesOf(it.state)).toBeLessThan(baseline + slackBytes)
  console.log(`${ids.length} sessions on ${available.join(', ')}; killed: ${JSON.stringify(tally)}`)
})

/** Folders grow with the names that were in them, and do not shrink. */
const slackBytes = 2 ** 20

/** On the disk, without what is kept of every session for good: the log, and what was logged. */
function bytesOf(state: string): number {
  const kept = ['anchorhold.db', 'anchorhold.db-wal', 'anchorhold.db-shm', 'daemon.log', 'gate.log', 'keepers.log']
  const args = ['--summarize', '--block-size=1', ...kept.map((name) => `--exclude=${name}`), state]
  return Number(execFileSync('du', args, { encoding: 'utf8' }).split('\t')[0])
}

/** What stands between a keeper and its cell: bwrap, or an engine's monitor and runtime. */
const isEngine = ({ argv }: { readonly argv: string }) =>
  /^\S*(?:unshare|catatonit|conmon|podman|runc|runsc\S*|bwrap|qemu-system-\S+) /.test(argv)

async function restful(it: Installation, id: SessionId): Promise<boolean> {
  try {
    const { state, queued_prompts } = await it.api.getSession({ params: { id } })
    return state === 'failed' || (queued_prompts === 0 && (state === 'ready' || state === 'interrupted'))
  } catch {
    return false
  }
}

const left = (it: Installation, kind: string) => readdirSync(join(it.state, kind))

function controlGroups(): string[] {
  const root = '/sys/fs/cgroup'
  const parents = [root, ...readdirSync(root).map((name) => join(root, name))].map((path) => join(path, 'anchorhold'))
  return parents.flatMap((path) => (existsSync(path) ? readdirSync(path) : []))
}
