import { expect, test } from 'vitest'
import { filterOf } from './names.ts'

const { hides } = filterOf('standard')

test.each([
  ...['.env', '.env.local', 'production.env', 'deep/down/.env', '.ENV', 'deep/.Env.Production', 'server.pem', 'tls/SERVER.KEY'],
  ...['id_rsa', '.ssh', 'home/.ssh', 'credentials.json', 'conf/secrets.yaml', '.aws/credentials', 'a/.docker/config.json'],
  ...['.git-credentials', '.netrc', 'store.jks', 'client_secret_1234.json'],
])('standard hides %s', (path) => {
  expect(hides(path)).toBe(true)
})

test.each([
  ...['.env.example', 'a/.env.sample', 'id_ed25519.pub', 'src/env.ts', 'environment.md', 'keys.ts', 'package.json', '.gitignore'],
  ...['secrets.ts', 'monkey', 'docs/credentials.md', '.npmrc'],
])('standard shows %s', (path) => {
  expect(hides(path)).toBe(false)
})

test('strict hides what might be a secret as well', () => {
  const strict = filterOf('strict')
  for (const path of ['.npmrc', 'my-secrets-prod.json', 'terraform.tfstate', 'api_token.txt', '.env'])
    expect([path, strict.hides(path)]).toEqual([path, true])
  expect(strict.hides('token.ts')).toBe(false)
})

test('a list of one’s own hides what it says and nothing else', () => {
  const own = filterOf({ denylist: ['*.secret', 'private/**'], allowlist: ['public.secret'] })
  expect(['a.secret', 'x/b.SECRET', 'private/deep/file', 'public.secret', '.env'].map(own.hides)).toEqual([
    ...[true, true, true, false, false],
  ])
})
