import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findToolchains, holdsCredentials, pickVersion } from './toolchains.ts'

test.each([
  ['takes the newest', ['v9.1.0', 'v20.2.0', 'v20.10.0'], null, 'v20.10.0'],
  ['takes the newest of what is wanted', ['v18.1.0', 'v18.20.0', 'v20.0.0'], '18', 'v18.20.0'],
  ['does not take 1 for 18', ['18.0.0', '1.5.0'], '1', '1.5.0'],
  ['takes the newest where a name means nothing to it', ['v18.1.0', 'v20.0.0'], 'lts/*', 'v20.0.0'],
  ['knows no version in anything else', ['system', 'envs'], null, null],
])('pickVersion() %s', (_, versions, wanted, expected) => {
  expect(pickVersion(versions, wanted)).toBe(expected)
})

describe('findToolchains()', () => {
  let root: string
  let home: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
    home = join(root, 'home/ada')
    make('home/ada/')
  })
  afterEach(() => rmSync(root, { recursive: true }))

  /** Folders end in a slash. */
  function make(...paths: string[]) {
    for (const path of paths) {
      mkdirSync(path.endsWith('/') ? join(root, path) : dirname(join(root, path)), { recursive: true })
      if (!path.endsWith('/')) writeFileSync(join(root, path), '')
    }
  }
  const find = () => findToolchains(home, { root })
  const named = (name: string) => find().find((each) => each.name === name)

  test('finds nothing in an empty home', () => {
    expect(find()).toEqual([])
  })

  test('puts the version that nvm and pyenv are set to into the path', () => {
    make(
      'home/ada/.nvm/versions/node/v18.2.0/bin/node',
      'home/ada/.nvm/versions/node/v20.1.0/bin/node',
      'home/ada/.pyenv/versions/3.12.1/bin/python',
    )
    make('home/ada/.nvm/alias/')
    writeFileSync(join(home, '.nvm/alias/default'), '18\n')
    expect(named('nvm')).toEqual({
      name: 'nvm',
      mounts: [{ source: join(home, '.nvm/versions/node'), target: join(home, '.nvm/versions/node') }],
      path: [join(home, '.nvm/versions/node/v18.2.0/bin')],
      env: {},
    })
    expect(named('pyenv')?.path).toEqual([join(home, '.pyenv/versions/3.12.1/bin')])
  })

  test('gives the programs of cargo and never its credentials', () => {
    make(
      'home/ada/.cargo/bin/rg',
      'home/ada/.cargo/credentials.toml',
      'home/ada/.cargo/config.toml',
      'home/ada/.rustup/toolchains/stable-x/bin/rustc',
    )
    expect(named('rustup')?.mounts.map(({ source }) => source)).toEqual([
      join(home, '.rustup/toolchains'),
      join(home, '.cargo/bin'),
    ])
    expect(
      find()
        .flatMap(({ mounts }) => mounts)
        .some(({ source }) => join(home, '.cargo/credentials.toml').startsWith(`${source}/`)),
    ).toBe(false)
  })

  test('finds sdkman, asdf, mise, fnm, volta, bun and deno', () => {
    make(
      'home/ada/.sdkman/candidates/java/21/bin/java',
      'home/ada/.asdf/installs/erlang/26.1/bin/erl',
      'home/ada/.local/share/mise/installs/zig/0.13.0/bin/zig',
    )
    make(
      'home/ada/.local/share/fnm/node-versions/v22.0.0/installation/bin/node',
      'home/ada/.volta/tools/image/node/20.0.0/bin/node',
    )
    make('home/ada/.bun/bin/bun', 'home/ada/.deno/bin/deno')
    symlinkSync('21', join(home, '.sdkman/candidates/java/current'))
    expect(find().map(({ name }) => name)).toEqual(['fnm', 'volta', 'sdkman', 'asdf', 'mise', 'bun', 'deno'])
    expect(named('sdkman')?.env).toEqual({ JAVA_HOME: join(home, '.sdkman/candidates/java/current') })
  })

  test('mounts the store of nix and not the socket of its daemon', () => {
    make('nix/store/abc-profile/bin/hello', 'nix/var/nix/profiles/', 'nix/var/nix/daemon-socket/socket')
    symlinkSync(join(root, 'nix/store/abc-profile'), join(root, 'nix/var/nix/profiles/default'))
    expect(named('nix')).toMatchObject({
      mounts: [{ source: join(root, 'nix/store') }],
      path: [join(root, 'nix/store/abc-profile/bin')],
    })
  })

  test('offers folders of /opt that have programs, but none that holds a credential', () => {
    make(
      'opt/gradle/bin/gradle',
      'opt/data/file',
      'opt/deploy/bin/deploy',
      'opt/deploy/conf/id_rsa',
      'opt/app/bin/app',
      'opt/app/.env',
    )
    expect(find().map(({ name }) => name)).toEqual(['gradle'])
  })

  test('leaves out what the user of the session cannot reach', () => {
    make('home/ada/.bun/bin/bun')
    chmodSync(root, 0o711)
    const user = { uid: 1_900_000_001, gid: 1_900_000_001 }
    expect(findToolchains(home, { root, user }).map(({ name }) => name)).toEqual(['bun'])
    chmodSync(home, 0o700)
    expect(findToolchains(home, { root, user })).toEqual([])
  })

  test.each(['credentials.toml', '.npmrc', '.aws/config', 'tls/server.key'])('holdsCredentials() knows %s', (path) => {
    make(`box/${path}`)
    expect(holdsCredentials(join(root, 'box'))).toBe(true)
  })
})
