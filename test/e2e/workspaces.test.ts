import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ownerOf } from './host.ts'
import { type Installation, installation, isRoot, makeBase, outputsOf, someone, textOf } from './installation.ts'

let it: Installation
const base = makeBase()
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  chmodSync(base, 0o700)
  rmSync(base, { recursive: true, force: true })
})

const hasAcl = existsSync('/usr/bin/setfacl')
const acl = (path: string) => execFileSync('getfacl', ['-cpn', path], { encoding: 'utf8' })
/** A folder of whoever runs the tests, with something in it. */
function folder(name: string, mode = 0o755): string {
  const path = join(base, name)
  mkdirSync(join(path, 'inner'), { recursive: true })
  writeFileSync(join(path, 'inner/there.txt'), 'was there before')
  symlinkSync('/etc/shadow', join(path, 'link'))
  chmodSync(path, mode)
  return path
}
const work = 'read inner/there.txt, then create made.txt saying hi'

describe.runIf(isRoot)('as root', () => {
  test('a folder of root is refused with the three ways there are, and nothing is made', async () => {
    const path = folder('roots')
    const told = await it.cli(['run', '--workspace', path, work])
    expect(told).toMatchObject({
      code: 2,
      err: expect.stringContaining('it belongs to root, and no cell runs as root') as string,
    })
    for (const way of ['--copy', '--acl', '--chown']) expect(told.err).toContain(way)
    expect((await it.api.listSessions()).sessions).toEqual([])
    expect(existsSync(join(path, 'made.txt'))).toBe(false)
  })

  test('--copy works on a copy that is the session’s own, and leaves the folder as it was', async () => {
    const path = folder('copied')
    const told = await it.cli(['run', '--copy', '--workspace', path, work])
    expect(told).toMatchObject({ code: 0, out: expect.stringContaining('was there before') as string })
    expect(existsSync(join(path, 'made.txt'))).toBe(false)
    expect(ownerOf(path)).toBe(0)
    const [session] = (await it.api.listSessions()).sessions
    expect(session!.workspace).toBe(join(it.state, 'sessions', session!.id, 'workspace'))
    expect(ownerOf(join(session!.workspace, 'made.txt'))).toBeGreaterThan(1_900_000_000)
    // A link is copied as a link: what it leads to is not there.
    expect(outputsOf(await it.turn(session!.id, 'run `cat link; echo code $?`'))).toContain('code 1')
  })

  test('--chown gives the folder to the session, and nothing beyond it', async () => {
    const path = folder('given')
    const shadow = ownerOf('/etc/shadow')
    expect(await it.cli(['run', '--chown', '--workspace', path, work])).toMatchObject({ code: 0 })
    const uid = ownerOf(path)
    expect(uid).toBeGreaterThan(1_900_000_000)
    for (const name of ['inner', 'inner/there.txt', 'made.txt']) expect(ownerOf(join(path, name))).toBe(uid)
    expect(ownerOf('/etc/shadow')).toBe(shadow)
  })

  test.skipIf(!hasAcl)(
    '--acl lets one session in through folders that it could not pass, and is undone when it is archived',
    async () => {
      mkdirSync(join(base, 'closed'), { mode: 0o700 })
      const path = folder('closed/shared', 0o700)
      const before = [acl(join(base, 'closed')), acl(path), acl(join(path, 'inner'))]
      expect(await it.cli(['run', '--acl', '--workspace', path, work])).toMatchObject({ code: 0 })
      expect(readFileSync(join(path, 'made.txt'), 'utf8')).toBe('hi\n')
      expect(ownerOf(path)).toBe(0)
      const [session] = (await it.api.listSessions()).sessions
      const uid = ownerOf(join(path, 'made.txt'))
      expect(acl(path)).toContain(`user:${uid}:rwx`)
      expect(acl(join(base, 'closed'))).toContain(`user:${uid}:--x`)
      // Only to pass: the folder above shows nothing.
      expect(outputsOf(await it.turn(session!.id, `run \`ls ${join(base, 'closed')}; echo code $?\``))).toContain('code 2')
      expect(await it.cli(['archive', session!.id])).toMatchObject({ code: 0 })
      expect([acl(join(base, 'closed')), acl(path), acl(join(path, 'inner'))].join()).not.toContain(`:${uid}:`)
      expect([acl(join(base, 'closed')), acl(path), acl(join(path, 'inner'))].map(withoutMask)).toEqual(before.map(withoutMask))
    },
  )

  test('without the tool for access lists the refusal names its package', async () => {
    await using bare = await installation({ env: { PATH: '/nowhere' } })
    const path = folder('no-acl')
    expect(await bare.cli(['run', '--acl', '--workspace', path, work])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/setfacl is not installed\n +apt-get install -y acl/) as string,
    })
  })

  test('a folder of someone under a closed folder of root is refused, and open to a copy', async () => {
    mkdirSync(join(base, 'roots-own'), { mode: 0o700 })
    const path = folder('roots-own/theirs')
    chownSync(path, someone.uid, someone.gid)
    const told = await it.cli(['run', '--workspace', path, work])
    expect(told).toMatchObject({
      code: 2,
      err: expect.stringContaining(`its owner (uid ${someone.uid}) cannot reach it`) as string,
    })
    expect(told.err).toContain('--acl')
    expect(await it.cli(['run', '--copy', '--workspace', path, work])).toMatchObject({ code: 0 })
  })

  test('a folder of another user is entered as that user', async () => {
    const path = folder('another')
    execFileSync('chown', ['-Rh', `${someone.uid}:${someone.gid}`, path])
    const { session, events } = await it.run(`${work}, then run \`touch \${HOME}/x /tmp/y; cat /etc/shadow; echo code $?\``, {
      workspace: path,
    })
    expect(textOf(events)).toContain('was there before')
    expect(outputsOf(events)).toContain('code 1')
    expect(statSync(join(path, 'made.txt'))).toMatchObject(someone)
    // The session's own things are that user's as well, and nobody else's.
    const home = join(it.state, 'sessions', session.id)
    expect(statSync(home)).toMatchObject(someone)
    expect(statSync(home).mode & 0o077).toBe(0)
  })

  test('sessions that are made at the same time have users of their own', async () => {
    // A copy takes a while, in which others come and ask for a user too.
    const body = { workspace: folder('many'), workspace_access: 'copy' as const }
    const made = await Promise.all(Array.from({ length: 8 }, () => it.api.createSession({ body })))
    const owners = made.map(({ id }) => ownerOf(join(it.state, 'sessions', id)))
    expect(new Set(owners).size).toBe(8)
    expect(Math.min(...owners)).toBeGreaterThan(1_900_000_000)
    await Promise.all(made.map(({ id }) => it.api.archive({ params: { id } })))
  })

  test('what a session keeps is closed to the user of another', async () => {
    const [one, two] = await Promise.all([it.api.createSession({ body: {} }), it.api.createSession({ body: {} })])
    const intruder = ownerOf(join(it.state, 'sessions', two.id))
    const tries = [
      `sessions`,
      `sessions/${one.id}`,
      `sessions/${one.id}/workspace`,
      `windows/${one.id}`,
      'gate',
      'anchorhold.db',
      'cli.token',
    ]
    for (const path of tries) {
      const look = () => execFileSync('ls', [join(it.state, path, '/')], { uid: intruder, gid: intruder, stdio: 'pipe' })
      expect(look, path).toThrow(/Permission denied|Not a directory|cannot access/)
      const read = () => execFileSync('cat', [join(it.state, path)], { uid: intruder, gid: intruder, stdio: 'pipe' })
      expect(read, path).toThrow()
    }
  })
})

describe.runIf(!isRoot)('as a user', () => {
  test('a folder that one cannot write is refused, and open to a copy', async () => {
    const path = folder('locked', 0o555)
    expect(await it.cli(['run', '--workspace', path, work])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/you cannot write to it\n.*--copy/) as string,
    })
    const told = await it.cli(['run', '--copy', '--workspace', path, work])
    expect(told).toMatchObject({ code: 0, out: expect.stringContaining('I created made.txt') as string })
    expect(existsSync(join(path, 'made.txt'))).toBe(false)
    chmodSync(path, 0o755)
  })

  test('a folder of root is refused', async () => {
    const told = await it.cli(['run', '--workspace', '/var/cache', 'say hello'])
    expect(told).toMatchObject({ code: 2, err: expect.stringContaining('you cannot write to it') as string })
  })

  test('what a cell makes belongs to the user, with --copy as well', async () => {
    const path = folder('own')
    expect(await it.cli(['run', '--workspace', path, work])).toMatchObject({ code: 0 })
    expect(ownerOf(join(path, 'made.txt'))).toBe(process.getuid!())
    expect(statSync(it.state).mode & 0o077).toBe(0)
  })
})

test('a workspace of the session’s own is made where none is given, and its path is quiet about the rest', async () => {
  const { session, events } = await it.run('run `pwd; ls -A | wc -l; ls -d /root /home/* 2>&1`')
  expect(outputsOf(events)).toContain('/workspace\n0\nls: cannot access')
  expect(outputsOf(events)).not.toContain('Permission denied')
  expect(session.workspace).toBe(join(it.state, 'sessions', session.id, 'workspace'))
})

test('a session can be purged whatever its agent did to its folders', async () => {
  const { session } = await it.run('run `mkdir -p a/b && touch a/b/c && chmod 000 a/b && chmod 555 a .`')
  const { id } = session
  await it.api.archive({ params: { id } })
  expect(await it.cli(['purge', id, '--confirm', id])).toMatchObject({ code: 0 })
  expect(existsSync(join(it.state, 'sessions', id))).toBe(false)
})

/** A mask is left behind by setfacl -x; without named entries it gives nothing to anyone. */
const withoutMask = (text: string) => text.replaceAll(/^(default:)?mask::.*\n/gm, '')
