import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { giveTo, has, processes, processesOf } from './host.ts'
import { command, isRoot, makeBase, someone, start, until } from './installation.ts'
import { atTerminal, type Person } from './terminal.ts'

let base: string
let workspace: string
beforeAll(() => {
  base = makeBase()
  workspace = folder('workspace', { 'f.txt': 'here\n', '.env': 'KEY=hunter2\n' })
})
afterAll(() => rmSync(base, { recursive: true, force: true }))

function folder(name: string, files: Readonly<Record<string, string>>): string {
  const path = join(base, name)
  rmSync(path, { recursive: true, force: true })
  makeFolderWith(path, files)
  return path
}
function makeFolderWith(path: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(path, { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
  if (isRoot) giveTo(path, someone)
}

const argv = (...args: readonly string[]) => [command, '--state', join(base, 's'), ...args]
const person = (...args: readonly string[]): Person => atTerminal(process.execPath, argv(...args), { cwd: workspace })
const ran = (...args: readonly string[]) => start(process.execPath, argv(...args)).ended
/** What launchers have made, each a folder of its own. */
const launched = () => join(base, 's/launched')
const made = () => (existsSync(launched()) ? readdirSync(launched()) : [])

describe('anchorhold sandbox', () => {
  test('a shell in a cell behaves as a shell at a terminal does', async () => {
    using one = person('sandbox', '--workspace', '.', '--', 'bash', '--norc')
    await one.sees('$')
    one.type('echo $((6 * 7)); pwd; cat f.txt .env; id -u\r')
    await one.sees(/^42\n\/workspace\nhere\n1000$/m)
    one.resize(66, 22)
    one.type('clear; stty size\r')
    await one.sees('22 66')
    // What a key interrupts is the command, and neither the shell nor the cell.
    const sleep = `sleep 1000.${process.pid}`
    one.type(`${sleep}\r`)
    await until(() => processes().some(({ argv: line }) => line === `${sleep} `))
    one.type('\u0003')
    one.type('echo the shell lives\r')
    await one.sees(/^the shell lives$/m)
    one.type('exit 3\r')
    expect(await one.exited).toBe(3)
    expect(made()).toEqual([])
  })

  test('a program that catches the key goes on', async () => {
    using one = person('sandbox', '--', 'sh', '-c', 'trap "echo caught" INT; echo ready; read line; read line; echo "got $line"')
    await one.sees('ready')
    one.type('\u0003')
    await one.sees('caught')
    one.type('first\rsecond\r')
    await one.sees(/got (first|second)/)
    expect(await one.exited).toBe(0)
  })

  test('whoever ends the launcher ends the cell', async () => {
    using one = person('sandbox', '--', 'sh', '-c', `echo ready; sleep 1001.${process.pid} & sleep 1002.${process.pid}`)
    await one.sees('ready')
    process.kill(one.pid, 'SIGTERM')
    expect(await one.exited).toBe(143)
    await until(() => !processes().some(({ argv: line }) => line.startsWith('sleep 100') && line.endsWith(`.${process.pid} `)))
    expect(made()).toEqual([])
  })

  test('streams and exit codes pass through without a terminal', async () => {
    const running = start(
      process.execPath,
      argv('sandbox', '-w', workspace, '--', 'sh', '-c', 'cat; echo aside >&2; exit 7'),
      'through',
    )
    expect(await running.ended).toEqual({ code: 7, out: 'through', err: 'aside\n' })
    expect(await ran('sandbox', '-w', workspace, '--', 'no-such-program')).toMatchObject({ code: 127 })
    expect(await ran('sandbox', '-w', workspace, '-v', '--', 'true')).toMatchObject({
      code: 0,
      err: expect.stringMatching(/rung bwrap, network none[^]*memory[^]*hidden: \.env/) as string,
    })
  })

  test('it reaches a bridge on this machine, and nothing else', async () => {
    await using bridge = createServer((_, answer) => answer.end('from the bridge'))
    await using other = createServer((_, answer) => answer.end('from the other'))
    for (const server of [bridge, other]) {
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
    }
    const [port, otherPort] = [bridge, other].map((server) => (server.address() as AddressInfo).port)
    const ask = (at: string) =>
      `{ exec 3<>/dev/tcp/127.0.0.1/${at} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3 | tail -1; } 2>/dev/null || echo refused`
    const url = `http://127.0.0.1:${port}`
    const { out } = await ran(
      'sandbox',
      '-w',
      workspace,
      '--bridge-url',
      url,
      '--',
      'bash',
      '-c',
      `echo $CLAUDEY_BRIDGE_URL; ${ask(String(port))}; echo; ${ask(String(otherPort))}`,
    )
    expect(out).toBe(`${url}\nfrom the bridge\nrefused\n`)
    for (const wrong of ['http://example.org', 'https://localhost:1', 'not an address'])
      expect(await ran('sandbox', '-w', workspace, '--bridge-url', wrong, '--', 'true')).toMatchObject({ code: 2 })
  })

  test.skipIf(!has('curl'))(
    'with --net proxy it reaches what a rule opens, and who is at the terminal hears what is blocked',
    async () => {
      await using server = createServer((_, answer) => answer.end('from the server'))
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const config = folder('s/config', {})
      writeFileSync(
        join(config, 'config.yaml'),
        `mirrors: { "opened.example:80": "127.0.0.1:${port}" }\nforges: { opened.example: { push: { branches: ["*"] } } }\n`,
      )
      const rules = (...lines: readonly string[]) => writeFileSync(join(config, 'policy.yaml'), lines.join('\n'))
      const asked = () =>
        ran(
          ...['sandbox', '-w', workspace, '--net', 'proxy', '--', 'sh', '-c'],
          `curl -s http://opened.example/; echo; curl -s -o /dev/null -w %{http_code} http://other.example/; echo
        curl -s --data 0000 http://opened.example/me/it/git-receive-pack | grep -aqF 'has no repository there' && echo not pushed`,
        )
      rules('rules:', '  - { on: net, match: { host: opened.example }, effect: allow }')
      expect(await asked()).toEqual({
        code: 0,
        out: 'from the server\n403\nnot pushed\n',
        err: expect.stringContaining('{ on: net, match: { host: other.example, port: 80 }, effect: allow }') as string,
      })
      // What the owner wrote of cells holds here as well; what cannot be read opens nothing.
      rules('network_mode: none')
      expect(await asked()).toMatchObject({ out: '', err: expect.stringContaining('network_mode') as string })
      rules('isolation_mode: gvisor')
      expect(await asked()).toMatchObject({ out: '', err: expect.stringContaining('weaker') as string })
      rules('no such key: 1')
      expect(await asked()).toMatchObject({ out: '', err: expect.stringContaining('line 1') as string })
      rmSync(config, { recursive: true })
    },
  )

  test('it reads a sandbox.conf, and runs nothing of it', async () => {
    makeFolderWith(join(base, 'tools'), { greet: 'good day\n' })
    const conf = join(base, 'sandbox.conf')
    writeFileSync(conf, `EXTRA_MOUNTS=(\n  "${base}/tools:/opt/tools:ro"\n)\nALLOW_NETWORK=true\nALLOW_LOCALHOST_ONLY=true\n`)
    const script = 'cat /opt/tools/greet; touch /opt/tools/x 2>/dev/null || echo refused; cut -d: -f1 /proc/net/dev | tail -n +3'
    expect(await ran('sandbox', '-w', workspace, '--config', conf, '--', 'sh', '-c', script)).toMatchObject({
      out: expect.stringMatching(/^good day\nrefused\n\s+lo\n$/) as string,
    })
    writeFileSync(conf, `BRIDGE_URL="$(touch ${base}/ran)"\n`)
    expect(await ran('sandbox', '-w', workspace, '--config', conf, '--', 'true')).toMatchObject({
      code: 2,
      err: expect.stringContaining('would run a command') as string,
    })
    expect(existsSync(join(base, 'ran'))).toBe(false)
    // The one in the configuration folder needs no flag.
    makeFolderWith(join(base, 's/config'), { 'sandbox.conf': readFileSync(conf, 'utf8') })
    expect(await ran('sandbox', '-w', workspace, '--', 'true')).toMatchObject({ code: 2 })
    rmSync(join(base, 's/config'), { recursive: true })
  })

  test('whoever stops reading what it says ends it, and nothing is left of it', async () => {
    const line = argv('sandbox', '-w', workspace, '--', 'yes').map((word) => `'${word}'`)
    const { out } = await start('bash', ['-c', `'${process.execPath}' ${line.join(' ')} | head -n 1; echo "\${PIPESTATUS[0]}"`])
      .ended
    expect(out).toBe('y\n141\n')
    expect(made()).toEqual([])
  })

  test('what cannot be is said before anything runs', async () => {
    for (const [args, words] of [
      [['--mount', '/etc/hostname:/etc/x:ro'], 'nothing may be mounted'],
      [['--mount', `${base}/tools:/opt/x:rw`], 'only the workspace'],
      [['--mount', '/nowhere:/opt/x:ro'], 'no such file'],
      [['-w', '/nowhere'], 'no such folder'],
      [['-w', '/etc'], 'belongs to the system'],
    ] as const)
      expect([args, await ran('sandbox', '-w', workspace, ...args, '--', 'touch', 'ran')]).toMatchObject([
        args,
        { err: expect.stringContaining(words) as string },
      ])
    expect(existsSync(join(workspace, 'ran'))).toBe(false)
  })

  test('without a wall it says so, hides nothing in silence, and is asked for by name', async () => {
    const bare = ['sandbox', '-w', workspace, '--rung', 'none']
    const noWall = expect.stringContaining('There is no wall') as string
    const cannotHide = { code: 7, out: '', err: expect.stringContaining('Cannot hide files') as string }
    expect(await ran(...bare, '--repo-filter', 'none', '--', 'echo', 'ran')).toMatchObject({ code: 0, out: 'ran\n', err: noWall })
    expect(await ran(...bare, '--', 'cat', '.env')).toMatchObject(cannotHide)
    expect(await ran(...bare, '--repo-filter', 'custom', '--hide', 'f.txt', '--', 'cat', 'f.txt')).toMatchObject(cannotHide)
    expect(await ran('claude', workspace, '--rung', 'none', '--provider', 'rehearsal', '--', '-p', 'say it')).toMatchObject(
      cannotHide,
    )
    const open = ['--repo-filter', 'none', '--', 'echo', 'ran']
    const inConfig = (name: string, text: string) => makeFolderWith(join(base, 's/config'), { [name]: text })
    try {
      inConfig('config.yaml', 'rung: none\n')
      expect(await ran('sandbox', '-w', workspace, ...open)).toMatchObject({
        out: '',
        err: expect.stringMatching(/Cannot start without a wall[^]*--rung none/) as string,
      })
      expect(await ran(...bare, ...open)).toMatchObject({ out: 'ran\n', err: noWall })
      for (const [policy, words] of [
        ['network_mode: none', 'network_mode'],
        ['isolation_mode: local', 'weaker'],
        ['repo_filter: strict', 'the policy requires "strict"'],
      ] as const) {
        inConfig('policy.yaml', `${policy}\n`)
        expect(await ran(...bare, ...open)).toMatchObject({ out: '', err: expect.stringContaining(words) as string })
      }
      // A daemon that is told nothing of a filter takes the policy's, and so does this: it cannot hide, and refuses.
      expect(await ran(...bare, '--', 'cat', '.env')).toMatchObject(cannotHide)
    } finally {
      rmSync(join(base, 's/config'), { recursive: true })
    }
  })

  test.each(['bwrap', 'none', ...(has('podman') ? ['container'] : [])])(
    'a command has ended when it has, whatever it leaves running, on the rung %s',
    async (rung) => {
      const sleep = `sleep 1003.${process.pid}`
      const args = ['sandbox', '-w', workspace, '--repo-filter', 'none', '--rung', rung, '--', 'sh', '-c', `${sleep} & echo hi`]
      expect(await ran(...args)).toMatchObject({ code: 0, out: 'hi\n' })
      await until(() => !processes().some(({ argv: line }) => line === `${sleep} `))
    },
  )

  test('a copy can be worked on and thrown away', async () => {
    const copied = await ran('sandbox', '-w', workspace, '--copy', '--', 'sh', '-c', 'echo changed > f.txt; cat f.txt')
    expect(copied).toMatchObject({ code: 0, out: 'changed\n' })
    expect(readFileSync(join(workspace, 'f.txt'), 'utf8')).toBe('here\n')
    await ran('sandbox', '-w', workspace, '--', 'sh', '-c', 'echo more > g.txt')
    expect(readFileSync(join(workspace, 'g.txt'), 'utf8')).toBe('more\n')
  })
})

describe('anchorhold claude', () => {
  test('Claude Code answers in a cell at a terminal, and goes on where it was left', async () => {
    using one = person('claude', '.', '--provider', 'rehearsal')
    await one.sees('❯')
    one.type('say the herring flies')
    await one.sees('say the herring flies')
    one.type('\r')
    await one.sees(/● the herring flies/)
    one.resize(80, 24)
    one.type('/exit')
    await one.sees('/exit')
    one.type('\r')
    expect(await one.exited).toBe(0)
    const again = await ran('claude', workspace, '--provider', 'rehearsal', '--', '--continue', '-p', 'what did I ask you')
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('the herring flies') as string })
  })

  test('what follows -- is for Claude Code, also where it could be a folder; on a copy nothing of it is kept', async () => {
    const homes = readdirSync(join(base, 's/homes'))
    const copied = await ran('claude', workspace, '--provider', 'rehearsal', '--copy', '--', '-p', 'say in a copy')
    expect(copied).toMatchObject({ code: 0, out: expect.stringContaining('in a copy') as string })
    expect(readdirSync(join(base, 's/homes'))).toEqual(homes)
    using one = person('claude', '--provider', 'rehearsal', '--', 'say no folder')
    await one.sees(/● no folder/)
    process.kill(one.pid, 'SIGTERM')
    await one.exited
  })

  test('a launcher that is killed takes cell and gate along, and the next one clears away what it left', async () => {
    using one = person('claude', '.', '--provider', 'rehearsal')
    await one.sees('❯')
    expect(processesOf(join(base, 's')).some(({ argv: line }) => line.includes('/gate.mjs'))).toBe(true)
    process.kill(one.pid, 'SIGKILL')
    await until(() => processesOf(join(base, 's')).length === 0)
    expect(made()).toHaveLength(1)
    expect(await ran('sandbox', '-w', workspace, '--', 'true')).toMatchObject({ code: 0 })
    expect(made()).toEqual([])
  })
})
