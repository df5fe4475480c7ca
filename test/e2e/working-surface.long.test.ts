import type { SessionId } from '@anchorhold/protocol/ids'
import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation, isRoot, someone, until } from './installation.ts'
import { openTerminal, tryTerminal } from './web-terminal.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

/** One pixel; and the same, calling itself a square of 60,000. */
const dot = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const hugePng = Buffer.from(dot)
hugePng.writeUInt32BE(60_000, 16)
hugePng.writeUInt32BE(60_000, 20)

const bearer = () => ({ authorization: `Bearer ${it.token}` })
const terminal = (id: SessionId, headers: Record<string, string>) => tryTerminal(it, id, { headers })
const opened = (id: SessionId, shell: string | null = null) => openTerminal(it, id, shell)

test('changes and files are seen from inside the cell, uploads go in, and nothing leads out', async () => {
  const workspace = it.workspace({ 'a.txt': 'one\n', '.env': 'KEY=hidden\n', 'sub/b.txt': 'b\n' })
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], {
      cwd: workspace,
      ...(isRoot ? someone : {}),
      env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
    })
  git('init', '-q', '-b', 'trunk', '.')
  git('add', 'a.txt', 'sub')
  git('commit', '-q', '-m', 'First')
  symlinkSync('/etc/passwd', join(workspace, 'passwd'))
  const { session } = await it.run('create c.txt saying new, then edit a.txt replacing one with two', { workspace })
  const { id } = session
  const params = { id }
  const found = await it.api.changes({ params })
  if (!found.git) throw new Error(found.message)
  expect([found.branch, found.head?.subject]).toEqual(['trunk', 'First'])
  expect(found.files.map(({ path, status }) => `${status} ${path}`)).toEqual(
    expect.arrayContaining(['modified a.txt', 'untracked c.txt']),
  )
  expect(found.files.find(({ path }) => path === 'a.txt')?.patch).toContain('-one\n+two')
  expect((await it.api.getSession({ params })).branch).toBe('trunk')
  // What is committed since is no change to the last commit, and one to what the session began with.
  git('add', 'a.txt')
  git('commit', '-q', '-m', 'Second')
  const changed = async (against: 'head' | 'start') => {
    const since = await it.api.changes({ params, query: { against } })
    return since.git ? since.files.map(({ path }) => path).filter((path) => path === 'a.txt' || path === 'c.txt') : since.message
  }
  expect([await changed('head'), await changed('start')]).toEqual([['c.txt'], ['a.txt', 'c.txt']])
  const onTerminal = async (...options: string[]) => (await it.cli(['changes', id, ...options])).out
  expect(await onTerminal('--against', 'start')).toMatch(/^modified +\+1 -1 +a\.txt$/m)
  expect(await onTerminal('--against', 'start', '--patch')).toContain('\n-one\n+two\n')
  expect(await onTerminal()).not.toContain('a.txt')
  expect(JSON.parse(await onTerminal('--json'))).toMatchObject({ git: true, branch: 'trunk' })
  expect((await it.cli(['rename', id, 'another name'])).out).toBe(`${id} is called another name\n`)
  expect((await it.cli(['ls'])).out).toMatch(new RegExp(`^${id} .* another name$`, 'm'))
  // As many as were asked for, whatever lies between them that nobody has to see.
  expect((await it.cli(['show', id, '--limit', '3'])).out.split('\n\n')[1]?.match(/^ *\d+  /gm)).toHaveLength(3)

  const { entries } = await it.api.listFiles({ params, query: { path: '' } })
  expect(entries.map(({ name }) => name)).toEqual(expect.arrayContaining(['sub', 'a.txt', 'passwd']))
  expect((await it.api.readFile({ params, query: { path: 'sub/b.txt' } })).text).toBe('b\n')
  // The repository filter hides it from the cell, and so from here.
  expect((await it.api.readFile({ params, query: { path: '.env' } })).text).toBe('')
  await expect(it.api.readFile({ params, query: { path: 'passwd' } })).rejects.toThrow('leads out of the workspace')
  for (const path of ['../x', '/etc/passwd', 'sub/../../x'])
    await expect(it.api.readFile({ params, query: { path } })).rejects.toMatchObject({ code: 'bad_request' })

  const raw = await it.raw(`/api/v1/sessions/${id}/download?path=a.txt`, { headers: bearer() })
  expect([raw.headers.get('content-disposition'), raw.headers.get('content-type'), await raw.text()]).toEqual([
    "attachment; filename*=UTF-8''a.txt",
    'application/octet-stream',
    'two\n',
  ])

  // A picture is one by its bytes, and is sent as nothing else; what only calls itself one is not sent at all.
  writeFileSync(join(workspace, 'dot.txt'), dot)
  writeFileSync(join(workspace, 'fake.png'), '<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>')
  writeFileSync(join(workspace, 'bomb.png'), hugePng)
  const picture = (path: string) => it.raw(`/api/v1/sessions/${id}/picture?path=${path}`, { headers: bearer() })
  const shown = await picture('dot.txt')
  expect(Buffer.from(await shown.arrayBuffer()).equals(dot)).toBe(true)
  expect(['content-type', 'x-content-type-options', 'content-security-policy'].map((name) => shown.headers.get(name))).toEqual([
    'image/png',
    'nosniff',
    "sandbox; default-src 'none'",
  ])
  expect([(await picture('fake.png')).status, (await picture('bomb.png')).status, (await picture('passwd')).status]).toEqual([
    400, 413, 400,
  ])

  const upload = (name: string) => it.api.uploadFile({ params, body: { name, data: Buffer.from('hi').toString('base64') } })
  expect([(await upload('../My shot.png')).path, (await upload('My shot.png')).path]).toEqual([
    'uploads/My-shot.png',
    'uploads/My-shot-2.png',
  ])
  expect(readFileSync(join(workspace, 'uploads/My-shot.png'), 'utf8')).toBe('hi')
  const { commands, files } = await it.api.completions({ params })
  expect(files.names).toEqual(expect.arrayContaining(['a.txt', 'sub/b.txt', 'uploads/My-shot.png']))
  expect(commands.map(({ name }) => name)).toContain('compact')
  expect((await it.log(id)).filter(({ type }) => type === 'file.uploaded')).toHaveLength(2)

  await it.api.stop({ params })
  await expect(it.api.changes({ params })).rejects.toMatchObject({ code: 'wrong_state' })
}, 120_000)

test('a terminal is a shell of its own in the cell: found again, resized, ended with it, and in the log', async () => {
  const { session } = await it.run('say hello')
  const { id } = session
  expect((await it.cli(['changes', id])).out).toBe('This workspace is not a git repository.\n')
  const one = await opened(id)
  one.type('pwd; id -u; ls /root; echo end$((1))\n')
  await until(() => /end1/.test(one.shown))
  expect(one.shown).toContain('/workspace')
  // The cell's own user, and not the daemon's files.
  expect(one.shown).toMatch(/1000\r\n/)
  expect(one.shown).toMatch(/cannot (access|open)/)
  one.type(`echo $ANTHROPIC_UNIX_SOCKET nothing$((1))\n`)
  await until(() => /\rnothing1/.test(one.shown))

  const { shell } = one.said[0] as { shell: string }
  one.leave()
  const two = await opened(id, shell)
  await until(() => /end1/.test(two.shown))
  expect(two.said[0]).toMatchObject({ shell, again: true })
  two.say({ t: 'size', cols: 120, rows: 40 })
  two.type('until [ "$(stty size)" = "40 120" ]; do sleep 0.05; done; echo grown$((1))\n')
  await until(() => /grown1/.test(two.shown))

  // It outlives the daemon.
  await it.cli(['down'])
  await until(() => two.over)
  await it.up()
  const three = await opened(id, shell)
  await until(() => /grown1/.test(three.shown))
  expect(three.said[0]).toMatchObject({ again: true })

  await it.api.stop({ params: { id } })
  await until(() => three.over)
  expect(three.said.at(-1)).toMatchObject({ t: 'ended' })
  const told = (await it.log(id)).filter(({ type }) => type.startsWith('terminal.'))
  expect(told.map(({ type, body }) => [type, body])).toMatchObject([
    ['terminal.opened', { shell, actor: 'owner', door: 'http' }],
    ['terminal.closed', { shell, why: 'The cell was ended' }],
  ])
  expect(await terminal(id, bearer())).toBe(409)
}, 120_000)

test('a terminal is for people who may work on the session, from a page of the house', async () => {
  const { session } = await it.run('say hello')
  const { id } = session
  const { hash } = new URL((await it.api.createLoginLink()).url)
  const login = await it.raw('/api/v1/login', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ secret: hash.replace('#login=', '') }),
  })
  const cookie = login.headers.get('set-cookie')!.split(';')[0]!
  const home = it.url.replace('127.0.0.1', 'localhost')
  expect(await terminal(id, {})).toBe(401)
  expect(await terminal(id, { authorization: `Bearer ${'x'.repeat(30)}` })).toBe(401)
  expect(await terminal(id, { cookie, origin: 'http://evil.example' })).toBe(403)
  expect(await terminal(id, { cookie })).toBe(403)
  expect(await terminal(id, { ...bearer(), host: 'evil.example' })).toBe(403)

  for (const [name, role, status] of [
    ['prog', 'agent', 404],
    ['vera', 'viewer', 403],
    ['mem', 'member', 403],
  ] as const) {
    await it.api.addUser({ body: { name, role } })
    if (role !== 'agent') await it.api.shareSession({ params: { id, name }, body: { access: 'view' } })
    const { secret } = await it.api.createToken({ body: { name: 'try', user: name } })
    expect([name, await terminal(id, { authorization: `Bearer ${secret}` })]).toEqual([name, status])
    // A program may work on what is its own, and has no shell there all the same.
    if (role !== 'agent') continue
    const own = await it.raw('/api/v1/sessions', {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: '{}',
    })
    const { id: mine } = (await own.json()) as { id: SessionId }
    expect(await terminal(mine, { authorization: `Bearer ${secret}` })).toBe(403)
  }

  // Whoever loses the right to it loses the terminal at once.
  await it.api.shareSession({ params: { id, name: 'mem' }, body: { access: 'work' } })
  const { secret, token } = await it.api.createToken({ body: { name: 'works', user: 'mem' } })
  const member = await terminal(id, { authorization: `Bearer ${secret}` })
  const browser = await terminal(id, { cookie, origin: home })
  if (typeof member === 'number' || typeof browser === 'number') throw new Error('refused')
  member.type('echo in$((1))\n')
  await until(() => /in1/.test(member.shown))
  await it.api.revokeToken({ params: { id: token.id } })
  await until(() => member.over)
  expect(browser.over).toBe(false)
  browser.say({ t: 'close' })
  await until(() => browser.over)
  expect(browser.said.at(-1)).toMatchObject({ t: 'ended', why: 'Closed by owner' })
}, 120_000)
