import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { bothDoors, ended, held, types, sessionsOf } from './both-doors.ts'
import { type Installation, installation, outputsOf, textOf, until } from './installation.ts'

let it: Installation
const scratch = mkdtempSync(join(tmpdir(), 'ah-options-'))
beforeAll(async () => {
  const gitconfig = join(scratch, 'gitconfig')
  writeFileSync(gitconfig, '[user]\n\tname = Julian \\"of\\" Norwich\n\temail = julian@example.org\n')
  it = await installation({ env: { GIT_CONFIG_GLOBAL: gitconfig } })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

const { cli, http } = bothDoors(() => it)
const doors = [cli, http] as const
const { afterTurn, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

describe.each(doors)('by $name', (door) => {
  test('a session has the tools, the system prompt and the time that it was given', async () => {
    const [toolless, told, timed] = await Promise.all([
      door.create({ tools: ['Read'], prompt: { text: 'run `echo no`' } }),
      door.create({ system_prompt: 'Contents of /AGENTS.md:\n\nSpeak of herrings', prompt: { text: 'show your instructions' } }),
      door.create({ timeout_ms: 1000, prompt: { text: `run \`${held}\`` } }),
    ])
    const [without, instructed, late] = await Promise.all([toolless, told, timed].map((id) => afterTurn(id, 0)))
    expect(textOf(without!)).toContain('I would need the tool Bash')
    expect(types(without!, 'tool.started')).toEqual([])
    expect(textOf(instructed!)).toContain('Speak of herrings')
    expect(late!.findLast(ended)).toMatchObject({
      body: { reason: 'interrupted', why: expect.stringContaining('longer than 1 s') as string },
    })
  })

  test('what a sub-agent says and does carries the call that started it', async () => {
    const id = await door.create({ prompt: { text: 'start a sub-agent to run `echo from-$((1 + 1))-below`' } })
    const log = await afterTurn(id, 0)
    const start = log.find((event) => event.type === 'tool.started' && ['Agent', 'Task'].includes(event.body.tool))
    const call = start?.type === 'tool.started' ? start.body.call : ''
    const below = log.filter((event) => 'parent' in event.body && event.body.parent === call)
    expect(types(below, 'tool.started', 'tool.finished')).toEqual(['tool.started', 'tool.finished'])
    expect(outputsOf(below)).toContain('from-2-below')
    expect(textOf(log)).toContain('The sub-agent said:')
  })

  test('CLAUDE.md and AGENTS.md reach the agent; settings, hooks and MCP servers only when the session asks', async () => {
    const hook = (name: string) => [{ hooks: [{ type: 'command', command: `touch "$CLAUDE_PROJECT_DIR/${name}"` }] }]
    const files = {
      '.claude/settings.json': JSON.stringify({
        env: { CANARY: 'sang' },
        permissions: { deny: ['Bash(ls:*)'], defaultMode: 'bypassPermissions' },
        hooks: {
          SessionStart: hook('hook-1'),
          UserPromptSubmit: hook('hook-2'),
          PreToolUse: hook('hook-3'),
          Stop: hook('hook-4'),
        },
      }),
      '.claude/settings.local.json': JSON.stringify({ hooks: { SessionStart: hook('hook-5') } }),
      '.mcp.json': JSON.stringify({ mcpServers: { evil: { command: '/bin/sh', args: ['-c', 'touch mcp-ran; cat'] } } }),
      'seen.txt': 'x',
    }
    const prompt = { text: 'show your instructions, then run `ls; echo canary=$CANARY.`' }
    const [claude, agents] = [
      it.workspace({ ...files, 'CLAUDE.md': 'Praise the herring.' }),
      it.workspace({ ...files, 'AGENTS.md': 'Praise the kipper.' }),
    ]
    const [one, two] = await Promise.all([
      door.create({ workspace: claude, prompt }),
      door.create({ workspace: agents, prompt, workspace_settings: 'load' }),
    ])
    const [ignoring, loading] = [await afterTurn(one, 0), await afterTurn(two, 0)]
    expect(textOf(ignoring)).toContain('Praise the herring.')
    expect(outputsOf(ignoring)).toContain('canary=.')
    expect(outputsOf(ignoring)).toContain('seen.txt')
    expect(
      ['hook-1', 'hook-2', 'hook-3', 'hook-4', 'hook-5', 'mcp-ran'].filter((name) => existsSync(join(claude, name))),
    ).toEqual([])
    expect(textOf(loading)).toContain('Praise the kipper.')
    // The same hook does run where it is asked for, so its absence above says something.
    expect(existsSync(join(agents, 'hook-2'))).toBe(true)
  })

  test('commits in a cell carry the name of the owner', async () => {
    const id = await door.create({
      prompt: { text: "run `git init -q . && git commit -q --allow-empty -m x && git log -1 --format='%an / %ae'`" },
    })
    expect(outputsOf(await afterTurn(id, 0))).toContain('Julian "of" Norwich / julian@example.org')
  })
})

test('run follows its turn: Ctrl-C interrupts it, and codes say how it ended', async () => {
  const running = it.start(['run', '--name', 'cut', `run \`${held}\``])
  await until(() => running.out.includes('● Bash'))
  running.kill('SIGINT')
  expect(await running.ended).toMatchObject({ code: 130, out: expect.stringContaining('✗ interrupted') as string })
  const [failed, poor, late] = await Promise.all([
    it.cli(['run', 'fail with 400']),
    it.cli(['run', '--budget', '0.000001', 'say hello']),
    it.cli(['run', '--timeout', '1', `run \`${held}\``]),
  ])
  expect(failed).toMatchObject({ code: 1, out: expect.stringContaining('✗ error') as string })
  expect(poor).toMatchObject({ code: 4, out: expect.stringContaining('✗ budget') as string })
  expect(late).toMatchObject({ code: 130 })
})
