import { endpointFile, tokenFile } from '@anchorhold/core/places'
import { Command } from 'commander'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { context } from '../context.ts'
import { terminal } from '../terminal.ts'
import { expose } from './expose.ts'

let state: string
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'ah-expose-'))
})
afterEach(() => rmSync(state, { recursive: true }))

async function exposed(...words: readonly string[]): Promise<string> {
  const out = new PassThrough() as unknown as NodeJS.WriteStream & PassThrough
  const program = new Command()
  expose(
    program,
    context(terminal(out, out), () => ({ state })),
  )
  await program.parseAsync(['expose', ...words], { from: 'user' })
  return String(out.read())
}

const steps = (text: string): string[] =>
  /one after the other:\n((?: {2}.*\n)+)/
    .exec(text)![1]!
    .trimEnd()
    .split('\n')
    .map((line) => line.trim())

test('expose() without a method shows every way, a line each', async () => {
  expect((await exposed()).trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^anchorhold expose tailscale {2,}for the devices/),
    expect.stringMatching(/^anchorhold expose cloudflare --url https:\/\/agents\.example {2,}a tunnel/),
    expect.stringMatching(/^anchorhold expose caddy --url https:\/\/agents\.example {2,}a proxy/),
  ])
  expect(await exposed('--url', 'https://ada.example')).toContain('anchorhold expose caddy --url https://ada.example ')
})

test.each(['cloudflare', 'caddy'])('expose() writes no file for a host that nobody named (%s)', async (how) => {
  await expect(exposed(how)).rejects.toMatchObject({ code: 'bad_request', hint: 'Give it: --url https://agents.example' })
  expect(existsSync(join(state, 'expose'))).toBe(false)
})

test('expose() says what to run, where the settings go, and how to try it', async () => {
  const text = await exposed('caddy', '--url', 'https://ada.example')
  const file = join(state, 'expose/Caddyfile')
  expect(readFileSync(file, 'utf8')).toBe('ada.example {\n\treverse_proxy 127.0.0.1:7777\n}\n')
  expect(steps(text)).toEqual([`caddy run --config ${file}`, 'anchorhold up --public-url https://ada.example'])
  expect(text).toContain(`And in ${state}/config/config.yaml, so`)
  expect(text).toContain('  public_url: https://ada.example\n')
})

test('expose() says the same to programs, in one line', async () => {
  const json = async (...words: readonly string[]) => {
    const text = await exposed(...words, '--json')
    expect(text.trimEnd()).not.toContain('\n')
    return JSON.parse(text) as unknown
  }
  const command = 'anchorhold expose caddy --url https://agents.example'
  expect(await json()).toContainEqual({ how: 'caddy', what: expect.stringContaining('a proxy') as string, command })
  const file = { path: join(state, 'expose/Caddyfile'), text: 'ada.example {\n\treverse_proxy 127.0.0.1:7777\n}\n' }
  const plan = {
    file,
    commands: [`caddy run --config ${file.path}`, 'anchorhold up --public-url https://ada.example'],
    config: { path: `${state}/config/config.yaml`, public_url: 'https://ada.example', trusted_proxies: 1 },
  }
  expect(await json('caddy', '--url', 'https://ada.example', '--print')).toEqual(plan)
  expect(existsSync(file.path)).toBe(false)
  expect(await json('caddy', '--url', 'https://ada.example')).toEqual(plan)
  expect(readFileSync(file.path, 'utf8')).toBe(file.text)
})

test('expose() ends a daemon that runs before one with the public URL is started', async () => {
  const daemon = createServer((_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end('{"ok":true,"gate":true,"store":true}')
  }).listen(0, '127.0.0.1')
  await once(daemon, 'listening')
  const { port } = daemon.address() as AddressInfo
  writeFileSync(endpointFile(state), JSON.stringify({ url: `http://127.0.0.1:${port}`, pid: 1 }))
  writeFileSync(tokenFile(state), 'token')
  const told = steps(await exposed('tailscale'))
  daemon.close()
  expect(told[0]).toContain(`http://127.0.0.1:${port}`)
  expect(told.slice(-2)).toEqual(['anchorhold down', 'anchorhold up --public-url https://MACHINE.TAILNET.ts.net'])
})
