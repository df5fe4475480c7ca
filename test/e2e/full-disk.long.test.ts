import type { PromptId } from '@anchorhold/protocol/ids'
import { execFileSync } from 'node:child_process'
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { held, letGo } from './both-doors.ts'
import { keepersOf } from './host.ts'
import { installation, makeBase, textOf, until } from './installation.ts'

/** A disk that holds the programs, which are copied there, and little else. */
const diskMib = 1024

function mount(on: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskMib}m,mode=711`, 'tmpfs', on], { stdio: 'ignore' })
}
function unmount(from: string): void {
  execFileSync('umount', ['-l', from])
  rmSync(from, { recursive: true })
}

function smallDisk(): string {
  const disk = makeBase()
  mount(disk)
  onTestFinished(() => unmount(disk))
  const base = join(disk, 'i')
  mkdirSync(base, { mode: 0o711 })
  chmodSync(base, 0o711)
  return base
}

function canMount(): boolean {
  const disk = makeBase()
  try {
    mount(disk)
    unmount(disk)
    return true
  } catch {
    rmSync(disk, { recursive: true, force: true })
    return false
  }
}

/** Takes up all that is left. */
function fill(path: string): void {
  const file = openSync(path, 'a')
  try {
    for (const piece of [Buffer.alloc(1024 * 1024), Buffer.alloc(4096)])
      try {
        for (;;) writeSync(file, piece)
      } catch {
        // That was the last of it.
      }
  } finally {
    closeSync(file)
  }
}

test.skipIf(!canMount())(
  'a full disk is told of, loses nothing that was acknowledged, and everything goes on when there is room (needs root, to mount a small one)',
  async () => {
    const base = smallDisk()
    await using it = await installation({ base, config: 'spare_keeper: false\n' })
    const workspace = it.workspace()
    const { session: one } = await it.run('say the herring flies', { workspace })
    const { id } = one
    const working = await it.api.prompt({
      params: { id },
      body: { text: `run \`${held}; head -c 20000 /dev/urandom | base64\` then say and after it` },
    })
    const { seq: before } = await it.event(id, one.last_seq, ({ type }) => type === 'tool.started')
    const { pid } = await it.api.status()
    const log = await it.log(id)
    const ballast = join(base, 'ballast')
    fill(ballast)

    // What is acknowledged is stored; what cannot be is refused, with what to do.
    const acknowledged: PromptId[] = []
    const refused = await until(async () => {
      const text = `say number ${acknowledged.length} ${'.'.repeat(5000)}`
      try {
        acknowledged.push((await it.api.prompt({ params: { id }, body: { text, mode: 'queue' } })).id)
        return null
      } catch (error) {
        return error
      }
    })
    expect(refused).toMatchObject({
      code: 'storage_unavailable',
      message: expect.stringContaining('the disk is full') as string,
      hint: expect.stringContaining('Free some space') as string,
    })
    // The agent meets the same, and nobody can write down what becomes of it: its keeper ends.
    letGo(workspace)
    await until(() => keepersOf(it.state, id).length === 0)
    expect(await it.api.status()).toMatchObject({ pid, disk: { low: true } })
    expect((await it.log(id)).slice(0, log.length)).toEqual(log)
    // A daemon that comes back to it stands, and can be told to stop agents.
    process.kill(pid, 'SIGKILL')
    await until(() => !existsSync(`/proc/${pid}`))
    await it.upByItself()
    expect(await it.api.status()).toMatchObject({ disk: { low: true } })
    const { pid: next } = await it.api.status()

    rmSync(ballast)
    // What became of it is stored by itself. What the agent was not given can be taken back.
    await it.event(id, before, ({ type }) => type === 'keeper.lost')
    expect(await it.api.getSession({ params: { id } })).toMatchObject({
      state: 'interrupted',
      queued_prompts: acknowledged.length,
    })
    for (const prompt of acknowledged) await it.api.dropPrompt({ params: { id, prompt } })
    expect(textOf(await it.turn(id, 'what did I ask you'))).toContain('the herring flies')
    await until(async () => {
      const { state, queued_prompts } = await it.api.getSession({ params: { id } })
      return state === 'ready' && queued_prompts === 0
    })
    const whole = await it.log(id)
    expect(whole.map(({ seq }) => seq)).toEqual(whole.map((_, index) => index + 1))
    expect(whole.slice(0, log.length)).toEqual(log)
    const idsOf = (type: 'prompt.queued' | 'prompt' | 'prompt.dropped') =>
      whole.flatMap((event) => (event.type === type ? [event.body.id] : []))
    const [queued, taken, dropped] = [idsOf('prompt.queued'), idsOf('prompt'), idsOf('prompt.dropped')]
    expect(queued).toEqual(expect.arrayContaining([working.id, ...acknowledged]))
    // Nothing that was refused is there after all, and each was handed on or taken back, once.
    expect(queued).toHaveLength(acknowledged.length + 3)
    expect([...taken, ...dropped].toSorted()).toEqual(queued.toSorted())
    const calls = whole.flatMap((event) => (event.type === 'usage' ? [event.body] : []))
    expect(new Set(calls.map(({ call }) => call)).size).toBe(calls.length)
    const nanos = calls.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0)
    expect(await it.api.getSession({ params: { id } })).toMatchObject({ cost_micros: Math.ceil(nanos / 1000) })
    expect((await it.api.status()).pid).toBe(next)
  },
  120_000,
)
