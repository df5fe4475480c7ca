import { type Rung, rungsOf } from '@anchorhold/protocol/rungs'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ownerOf, processesOf, stillAlive } from './host.ts'
import { command, type Installation, installation, outputsOf, script, until } from './installation.ts'
import { atTerminal } from './terminal.ts'
import { openTerminal } from './web-terminal.ts'

/** Slow under emulation: `npm run test:machines` runs it. */
const elsewhere: readonly string[] = ['microvm']
const rungs = rungsOf(process.platform).filter(
  (rung) => rung !== 'none' && elsewhere.includes(rung) === (process.env.MACHINES !== undefined),
)
const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8')

let it: Installation
beforeAll(async () => {
  it = await installation()
  if (process.env.ANCHORHOLD_IMAGES === undefined) return
  symlinkSync(process.env.ANCHORHOLD_IMAGES, join(it.state, 'images'))
  expect(await it.cli(['image', 'build'])).toMatchObject({ code: 0 })
})
afterAll(() => it[Symbol.asyncDispose]())

/** What this machine lacks for a rung; only an engine that is not installed excuses from a test, and never in silence. */
async function lacksOf(rung: Rung): Promise<string | null> {
  const { code, out, err } = await it.cli(['doctor', '--json'])
  expect({ code, err }).toMatchObject({ code: 0 })
  const found = (JSON.parse(out) as { rungs: { rung: string; missing: { what: string }[] }[] }).rungs.find(
    (one) => one.rung === rung,
  )
  const words = found?.missing.map(({ what }) => what).join('; ') ?? ''
  return words.includes('not installed') ? words : null
}

describe.each(rungs)('on the rung %s', (rung) => {
  test('a turn with tools is carried out, and the session shows its rung and its limits', async ({ skip }) => {
    const lacks = await lacksOf(rung)
    if (lacks !== null) skip(lacks)
    const workspace = it.workspace()
    const prompt = script(
      { tool_use: 'Write', input: { file_path: '/workspace/hello.txt', content: 'hi\n' } },
      { tool_use: 'Bash', input: { command: 'cat hello.txt && uname -s' } },
      { text: 'done' },
    )
    const { session, events } = await it.run(prompt, { rung, workspace })
    expect(outputsOf(events)).toContain('hi\nLinux')
    expect(session).toMatchObject({ rung, state: 'ready' })
    expect(readFileSync(join(workspace, 'hello.txt'), 'utf8')).toBe('hi\n')
    expect(ownerOf(join(workspace, 'hello.txt'))).toBe(ownerOf(workspace))
    const { out } = await it.cli(['show', session.id])
    expect(out).toMatch(new RegExp(`rung +${rung}`))
    expect(out).toMatch(/limit memory +\S+ \S+, (enforced|watched)/)
  })

  test('a person has a terminal in the cell, found again and resized, and sees the branch and what has changed', async ({
    skip,
  }) => {
    const lacks = await lacksOf(rung)
    if (lacks !== null) skip(lacks)
    const commands = 'git init -q -b trunk . && echo one > a.txt'
    const { session } = await it.run(script({ tool_use: 'Bash', input: { command: commands } }, { text: 'done' }), {
      rung,
      workspace: it.workspace(),
    })
    const { id } = session
    await it.event(id, 0, (event) => event.type === 'workspace.at' && event.body.branch === 'trunk')
    expect(await it.api.changes({ params: { id } })).toMatchObject({ git: true, files: [{ path: 'a.txt', status: 'untracked' }] })
    const one = await openTerminal(it, id)
    // As a person does, who types when there is a prompt. On every rung its line editor waits with select(2).
    await until(() => /[$#] $/.test(one.shown))
    one.type('cat a.txt; pwd; echo end$((1))\n')
    await until(() => /end1\r\n[^]*[$#] $/.test(one.shown))
    expect(one.shown).toMatch(/one\r\n\/workspace/)
    const { shell } = one.said[0] as { shell: string }
    one.leave()
    const two = await openTerminal(it, id, shell)
    two.say({ t: 'size', cols: 120, rows: 40 })
    two.type('until [ "$(stty size)" = "40 120" ]; do sleep 0.05; done; echo grown$((1))\n')
    await until(() => /grown1/.test(two.shown))
    await it.api.stop({ params: { id } })
    await until(() => two.over)
  })

  test('a command has a real terminal: its size, its exit code, and Ctrl-C', async ({ skip }) => {
    const lacks = await lacksOf(rung)
    if (lacks !== null) skip(lacks)
    const inCell = ['--state', it.state, 'sandbox', '--rung', rung, '--workspace', it.workspace(), '--', 'sh', '-c']
    using sized = atTerminal(process.execPath, [command, ...inCell, 'stty size; exit 7'], { columns: 77, rows: 33 })
    await sized.sees('33 77')
    expect(await sized.exited).toBe(7)
    using stopped = atTerminal(process.execPath, [
      command,
      ...inCell,
      'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.1; done',
    ])
    await stopped.sees('ready')
    stopped.type('\u0003')
    await stopped.sees('caught')
    expect(await stopped.exited).toBe(5)
  })
})

test('when the daemon stops, nothing of any cell is left: no process, no mount', async () => {
  await it.cli(['up', '--detach', '--port', '0'])
  const before = processesOf(it.state)
  expect(before.length).toBeGreaterThan(1)
  await it.cli(['down', '--all'])
  await until(() => stillAlive(before).length === 0)
  expect(processesOf(it.state)).toEqual([])
  expect(mounts()).not.toContain(it.state)
})
