import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { command, type Installation, installation, start } from './installation.ts'

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
/** Every command of the README that needs neither a key nor a folder of the reader's. */
const commands = [...readme.matchAll(/^```sh\n([^]*?)^```$/gm)]
  .flatMap((match) => match[1]!.split('\n'))
  .map((line) => line.replace(/\s+#.*$/, '').trim())
  .filter((line) => line.startsWith('npx anchorhold ') && !line.includes('provider add') && !line.includes('~/src'))

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

test('the README begins with a clone and the first command', () => {
  expect(readme).toMatch(/```sh\ngit clone [^\n]+ && cd anchorhold\nnpx anchorhold run /)
  expect(commands[0]).toBe('npx anchorhold run "create hello.txt saying hi, then run cat hello.txt"')
  expect(commands.length).toBeGreaterThan(5)
})

test.each(commands)('the README is right: %s', async (command) => {
  const words = [...command.replace(/^npx anchorhold /, '').matchAll(/"([^"]*)"|(\S+)/g)].map((match) => (match[1] ?? match[2])!)
  const { code, out, err } = await it.cli(words)
  // What takes long shows how far it has come.
  const said = err.replaceAll(/^\w+: (whether it is there|.* \(\d+ of \d+\))\n/gm, '')
  expect({ command, code, said }).toEqual({ command, code: 0, said: '' })
  expect(out).not.toBe('')
})

test('the conversation in docs/api.md is one that can be had', async () => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/api.md'), 'utf8')
  const [, script = ''] = /^```sh\n([^]*?)^```$/m.exec(text) ?? []
  const here = script
    .replace('npx anchorhold', `'${process.execPath}' '${command}' --state '${it.state}'`)
    .replace('http://localhost:7777', it.url)
  expect(here).toContain(it.url)
  const { code, out, err } = await start('sh', ['-ec', here]).ended
  expect({ code, err: err.replace(/^curl: \(23\) .*\n/, '') }).toEqual({ code: 0, err: '' })
  expect(out).toContain('event: turn.ended')
  expect(out).toMatch(/"id":"prm_[0-9a-f]{32}"/)
  expect(out).toContain('"state":"archived"')
})
