import type { SessionRepo } from '@anchorhold/protocol/forges'
import type { Rule } from '@anchorhold/protocol/policy'
import { netPaths } from '../policy/meaning.ts'
import { literalGlob } from '../policy/patterns.ts'

/** What a session may do with its own repository: clone, fetch, push as far as its refs may be, LFS; and of the forge's API all reading,
 *  with issues and pull requests. What would change the repository past its refs (contents, git, merges, hooks, keys, workflows) is in no
 *  rule, so somebody is asked. */
export function forgeRules({ host, api, repo }: SessionRepo): Rule[] {
  const why = `the session's repository ${repo}`
  const allow = (to: string, method: string | string[], path: string): Rule => ({
    on: 'net',
    match: { host: to, port: 443, method, path },
    effect: 'allow',
    why,
  })
  const own = literalGlob(`/${repo}`)
  const reading = ['GET', 'HEAD']
  const inApi = `/repos${own}`
  return [
    ...[own, `${own}.git`].flatMap((root) => [
      allow(host, reading, `${root}/*`),
      allow(host, 'POST', `${root}/git-upload-pack`),
      allow(host, 'POST', `${root}/git-receive-pack`),
      allow(host, ['POST', 'PUT'], `${root}/info/lfs/*`),
    ]),
    ...(api === null
      ? []
      : [
          allow(api, reading, inApi),
          allow(api, reading, `${inApi}/*`),
          allow(api, ['POST', 'PATCH'], `${inApi}/issues*`),
          allow(api, 'POST', `${inApi}/pulls`),
          allow(api, 'PATCH', `${inApi}/pulls/*`),
          ...['comments', 'comments/*', 'reviews', 'reviews/*'].map((name) => allow(api, 'POST', `${inApi}/pulls/*/${name}`)),
        ]),
  ]
}

/** Whether a request to a forge is about a push, however its path may be read. */
export function isPush(path: string): boolean {
  const receive = 'git-receive-pack'
  return netPaths({ path }).some(
    ({ path: bare, whole }) =>
      bare.toLowerCase().includes(receive) || readings(whole).some((one) => one.toLowerCase().includes(receive)),
  )
}

function readings(text: string): string[] {
  try {
    return [text, decodeURIComponent(text.replaceAll('+', ' '))]
  } catch {
    return [text]
  }
}

/** Whether a push is one to the session's repository, written in the one way that git writes it. */
export function isOwnPush({ repo }: Pick<SessionRepo, 'repo'>, path: string): 'asks' | 'pushes' | null {
  const lower = path.toLowerCase()
  for (const root of [`/${repo}`, `/${repo}.git`].map((one) => one.toLowerCase())) {
    if (lower === `${root}/info/refs?service=git-receive-pack`) return 'asks'
    if (lower === `${root}/git-receive-pack`) return 'pushes'
  }
  return null
}

/** The forge and the repository that a remote's URL names, as `host/owner/name`; null for what is none of a forge. */
export function repoOfUrl(url: string): { readonly host: string; readonly repo: string } | null {
  const found =
    /^(?:https?|ssh|git):\/\/(?:[^@/\s]*@)?([a-z0-9.-]+)(?::\d+)?\/(.+)$/i.exec(url) ??
    /^(?:[\w.-]+@)?([a-z0-9.-]+):(?!\/)(.+)$/i.exec(url)
  if (found === null) return null
  const repo = found[2]!.replace(/\/+$/, '').replace(/\.git$/, '')
  return /^[\w][\w.-]*\/[\w][\w.-]*$/.test(repo) && !repo.includes('..') ? { host: found[1]!.toLowerCase(), repo } : null
}
