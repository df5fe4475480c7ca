import { expect, test } from 'vitest'
import { compilePolicy, decide } from '../policy/decide.ts'
import { plainMeaning } from '../policy/meaning.ts'
import { policyOf } from '../policy/test-policy.ts'
import { forgeRules, isOwnPush, isPush, repoOfUrl } from './forges.ts'
import { refusedPush, refusedService } from './push-report.ts'

const mine = {
  host: 'github.com',
  api: 'api.github.com',
  repo: 'me/it',
  push: { branches: ['agent/*'], tags: [], deletes: false },
}

test.each([
  ['GET', 'github.com', '/me/it.git/info/refs?service=git-upload-pack', 'allow'],
  ['POST', 'github.com', '/me/it/git-upload-pack', 'allow'],
  ['POST', 'github.com', '/me/it.git/git-receive-pack', 'allow'],
  ['POST', 'github.com', '/me/it.git/info/lfs/objects/batch', 'allow'],
  ['POST', 'github.com', '/me/other.git/git-upload-pack', 'ask'],
  ['GET', 'github.com', '/me/it2/x', 'ask'],
  ['GET', 'github.com', '/me/it/../other/info/refs', 'ask'],
  ['GET', 'github.com', '/me/it/%2e%2e/other/info/refs', 'ask'],
  ['GET', 'api.github.com', '/repos/me/it', 'allow'],
  ['GET', 'api.github.com', '/repos/me/it/pulls?state=all', 'allow'],
  ['GET', 'api.github.com', '/repos/me/it/../other', 'ask'],
  ['GET', 'api.github.com', '/repos/me/it2', 'ask'],
  ['GET', 'api.github.com', '/user', 'ask'],
  ['POST', 'api.github.com', '/graphql', 'ask'],
  ['POST', 'api.github.com', '/repos/me/it/pulls', 'allow'],
  ['POST', 'api.github.com', '/repos/me/it/issues/1/comments', 'allow'],
  ['PUT', 'api.github.com', '/repos/me/it/pulls/1/merge', 'ask'],
  ['PUT', 'api.github.com', '/repos/me/it/contents/a', 'ask'],
  ['POST', 'api.github.com', '/repos/me/it/git/refs', 'ask'],
  ['POST', 'api.github.com', '/repos/me/it/merges', 'ask'],
  ['POST', 'api.github.com', '/repos/me/it/issues/../git/refs', 'ask'],
  ['POST', 'api.github.com', '/repos/me/it/hooks', 'ask'],
  ['DELETE', 'api.github.com', '/repos/me/it', 'ask'],
])('forgeRules(): %s %s%s is %s', (method, host, path, effect) => {
  const action = { kind: 'net', host, port: 443, method, path } as const
  expect(decide(compilePolicy(policyOf(forgeRules(mine))), plainMeaning(action)).effect).toBe(effect)
})

test.each([
  ['/me/it.git/git-receive-pack', true, 'pushes'],
  ['/Me/It/git-receive-pack', true, 'pushes'],
  ['/me/it/info/refs?service=git-receive-pack', true, 'asks'],
  ['/me/it.git/git-upload-pack', false, null],
  ['/me/other/git-receive-pack', true, null],
  ['/me/it/../other/git-receive-pack', true, null],
  ['/me/other/git%2dreceive-pack', true, null],
  ['/me/other/git%252dreceive-pack', true, null],
  ['/me/other/info/refs?service=git%2Dreceive-pack', true, null],
  ['/me/it/git-receive-pack?x', true, null],
  ['/me/other/x/..//git-receive-pack/', true, null],
])('isPush() and isOwnPush() of %s', (path, push, own) => {
  expect(isPush(path)).toBe(push)
  expect(isOwnPush(mine, path)).toBe(own)
})

test.each([
  ['https://github.com/me/it.git', 'github.com me/it'],
  ['https://user:pass@GitHub.com/me/it/', 'github.com me/it'],
  ['git@github.com:me/it.git', 'github.com me/it'],
  ['ssh://git@github.com:22/me/it', 'github.com me/it'],
  ['/srv/git/it.git', null],
  ['../it', null],
  ['https://github.com/me', null],
  ['https://github.com/me/../it', null],
  ['https://github.com/a/b/c', null],
  ['ext::sh -c x', null],
])('repoOfUrl(%s)', (url, expected) => {
  const found = repoOfUrl(url)
  expect(found === null ? null : `${found.host} ${found.repo}`).toBe(expected)
})

test('refusedPush() says for every ref why, in the bands that git asked for', () => {
  const push = { commands: [{ ref: 'refs/heads/main', kind: 'update' as const }], capabilities: ['report-status'], length: 0 }
  expect(refusedPush(push, () => 'no', 'x')).toBe('000eunpack ok\n001ang refs/heads/main no\n0000')
  expect(refusedPush({ ...push, capabilities: ['report-status', 'side-band-64k'] }, () => 'no', 'blocked')).toBe(
    '000d\u0002blocked\n0031\u0001000eunpack ok\n001ang refs/heads/main no\n00000000',
  )
  expect(refusedPush({ ...push, capabilities: [] }, () => 'no', 'x')).toBe(null)
  expect(refusedService('git-receive-pack', 'no')).toBe('001f# service=git-receive-pack\n0000000bERR no\n')
})
