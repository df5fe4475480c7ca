import { execFile } from 'node:child_process'
import { mkdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { settlePath } from '@anchorhold/protocol/link'
import { expect, test } from 'vitest'
import { rehearsal, testGate } from './test-gate.ts'

const program = createRequire(import.meta.url).resolve(`@anthropic-ai/claude-agent-sdk-linux-${process.arch}/claude`)

test('the real Claude CLI works through the model window against the rehearsal provider', { timeout: 60_000 }, async () => {
  await using it = await testGate({ provider: rehearsal, budget_nanos: 1_000_000_000 })
  const workspace = join(it.root, 'workspace')
  const home = join(it.root, 'home')
  await Promise.all([mkdir(workspace), mkdir(home)])
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    IS_SANDBOX: '1',
    ANTHROPIC_UNIX_SOCKET: it.socketPath,
    ANTHROPIC_BASE_URL: 'http://anthropic.internal',
    ANTHROPIC_AUTH_TOKEN: 'placeholder',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  }
  const prompt = 'create hello.txt saying hi, then run cat hello.txt'
  const args = [
    '-p',
    prompt,
    '--model',
    'rehearsal-1',
    '--output-format',
    'stream-json',
    '--verbose',
    '--permission-mode',
    'bypassPermissions',
  ]
  const run = promisify(execFile)(program, args, { cwd: workspace, env })
  run.child.stdin?.end()
  const lines = (await run).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; result?: string; is_error?: boolean })

  expect(await readFile(join(workspace, 'hello.txt'), 'utf8')).toBe('hi\n')
  const result = lines.findLast(({ type }) => type === 'result')
  expect(result).toMatchObject({ is_error: false, result: expect.stringContaining('`cat hello.txt` gave:\n\n```\nhi\n```') })
  const settled = JSON.parse((await it.call(settlePath, '')).body) as { n: number }
  expect(settled).toEqual({ source: 'gate', n: 6, refused: null })
  expect(it.usage().map(({ status, estimated, simulated }) => ({ status, estimated, simulated }))).toEqual(
    Array.from({ length: 3 }, () => ({ status: 200, estimated: false, simulated: true })),
  )
})
