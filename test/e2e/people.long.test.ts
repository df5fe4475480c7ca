import { client } from '@anchorhold/protocol/client'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})

const ok = async (...args: string[]): Promise<string> => {
  const { code, out, err } = await it.cli(args)
  expect([args, code, err]).toEqual([args, 0, ''])
  return out.trim()
}
const as = (secret: string) => client({ url: it.url, headers: { authorization: `Bearer ${secret}` } })
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'done',
    (error: { code: string }) => error.code,
  )

test('people come, are given a part of it, and go', async () => {
  expect(await ok('whoami')).toBe('owner (owner), by the token "cli"')
  await ok('user', 'add', 'ann', '--role', 'member')
  mkdirSync(join(it.state, 'config/policies'), { recursive: true })
  writeFileSync(join(it.state, 'config/policies/tight.yaml'), 'default_autonomy: supervised\n')
  await ok('policy', 'reload')
  await ok('user', 'add', 'bot', '--role', 'agent', '--policy', 'tight')
  const invited = await it.cli(['user', 'invite', 'ann'])
  // Nobody on another machine could follow it.
  expect(invited).toMatchObject({
    code: 0,
    err: expect.stringMatching(/within three days: until [^]*opens on this machine alone/) as string,
  })
  const invitation = new URL(invited.out.trim())
  const login = await fetch(`${it.url}/api/v1/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ secret: invitation.hash.replace('#login=', '') }),
  })
  const cookie = login.headers.get('set-cookie')!.split(';')[0]!
  const me = await fetch(`${it.url}/api/v1/whoami`, { headers: { cookie } })
  expect(await me.json()).toMatchObject({ user: { name: 'ann', role: 'member' } })

  const [ann, bot] = [
    as(await ok('token', 'add', 'hers', '--user', 'ann')),
    as(await ok('token', 'create', 'its', '--user', 'bot')),
  ]
  const { session } = await it.run('say hello')
  const params = { id: session.id }
  for (const other of [ann, bot]) expect(await codeOf(other.getSession({ params }))).toBe('not_found')
  expect(await ok('share', session.id, 'ann', '--view')).toBe('ann may look at it.')
  expect(await ann.getSession({ params })).toMatchObject({ id: session.id, owner: 'owner' })
  expect(await codeOf(ann.prompt({ params, body: { text: 'say no' } }))).toBe('forbidden')
  await ok('share', session.id, 'ann')
  expect(await codeOf(ann.prompt({ params, body: { text: 'say yes' } }))).toBe('done')
  expect(await ok('unshare', session.id, 'ann')).toBe('It is not shared with anybody.')
  expect(await codeOf(ann.getSession({ params }))).toBe('not_found')
  expect(await codeOf(bot.createSession({ body: { rung: 'none' } }))).toBe('forbidden')

  await ok('user', 'role', 'ann', 'viewer')
  expect(await codeOf(ann.createSession({ body: {} }))).toBe('forbidden')
  await ok('user', 'remove', 'ann')
  expect(await codeOf(ann.whoAmI())).toBe('unauthenticated')
  expect((await fetch(`${it.url}/api/v1/whoami`, { headers: { cookie } })).status).toBe(401)
  expect(await ok('user', 'ls')).not.toContain('ann')
  const { code, err } = await it.cli(['user', 'remove', 'owner'])
  expect([code, err]).toEqual([1, expect.stringContaining('nobody else is an owner')])

  const log = await ok('audit', '--session', session.id)
  expect(log).toContain('shared to view with ann by owner through cli')
  expect(log).toContain(`prompt prm_`)
  expect(log).toContain('by ann through http')
  expect(log).toContain('credential of rehearsal used')
  const house = await ok('audit', '--kind', 'house')
  for (const words of ['user ann added as member by owner', 'login of ann', 'user ann removed by owner'])
    expect(house).toContain(words)
})

test('the command line is anybody’s who has a token: in a file or a variable, and never among its arguments', async () => {
  await ok('user', 'add', 'joe', '--role', 'member')
  const secret = await ok('token', 'add', 'by hand', '--user', 'joe')
  const file = join(it.state, 'joes.token')
  writeFileSync(file, `${secret}\n`)
  const whoami = 'joe (member), by the token "by hand"\n'
  expect(await it.cli(['--token-file', file, 'whoami'])).toMatchObject({ code: 0, out: whoami })
  expect(await it.cli(['whoami'], { env: { ANCHORHOLD_TOKEN: secret } })).toMatchObject({ code: 0, out: whoami })
  // Who cannot read the state folder says where the daemon is.
  const elsewhere = { ANCHORHOLD_TOKEN: secret, ANCHORHOLD_URL: it.url }
  expect(await it.cli(['--state', `${it.state}/none`, 'whoami'], { env: elsewhere })).toMatchObject({ code: 0, out: whoami })
  for (const [env, words] of [
    [{ ANCHORHOLD_TOKEN: 'nobodys' }, 'does not know this token'],
    [{ ...elsewhere, ANCHORHOLD_URL: 'http://example.org' }, 'Cannot send a token to "http://example.org"'],
  ] as const)
    expect(await it.cli(['ls'], { env })).toMatchObject({ out: '', err: expect.stringContaining(words) as string })
  expect(await it.cli(['user', 'add', 'eve', '--role', 'owner'], { env: elsewhere })).toMatchObject({
    out: '',
    err: expect.stringMatching(/may not|not allowed|forbidden/) as string,
  })
})

test('an export is found intact without the daemon, and not when anything in it was changed', async () => {
  const { session } = await it.run('say hello')
  const [file, all] = [join(it.state, 'one.jsonl'), join(it.state, 'all.jsonl')]
  await ok('export', session.id, file)
  await ok('export', '--all', all)
  const key = await ok('audit', '--key')
  expect(existsSync(`${file}.part`)).toBe(false)
  expect(statSync(join(it.state, 'gate/signing-key')).mode & 0o777).toBe(0o600)
  await ok('down', '--all')
  expect(await ok('verify', file, '--key', key)).toContain('✓ intact: 1 log')
  expect(await ok('verify', all, '--key', key)).toContain('✓ intact')
  expect(await ok('verify', all)).toContain(key)

  const lines = readFileSync(file, 'utf8').split('\n')
  const tampered = async (changed: readonly string[]) => {
    writeFileSync(file, changed.join('\n'))
    const { code, out } = await it.cli(['verify', file])
    expect(code).toBe(1)
    return out
  }
  expect(await tampered(lines.with(3, lines[3]!.replace(/"at":\d/, '"at":9')))).toContain('line 4: changed')
  expect(await tampered(lines.toSpliced(3, 1))).toContain('line 4: removed')
  expect(await tampered(lines.toSpliced(-3, 1))).toContain('truncated')
  writeFileSync(file, lines.join('\n'))
  expect((await it.cli(['verify', file, '--key', '0'.repeat(64)])).code).toBe(1)
  await it.up()
})
