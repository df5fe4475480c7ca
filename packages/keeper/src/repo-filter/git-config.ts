/** Whether a path below the workspace is a git repository's own settings, its submodules' and worktrees' included. */
export const isGitConfig = (path: string) =>
  /(?:^|\/)\.git\/(?:(?:modules|worktrees)\/(?:.+\/)?)?config(?:\.worktree)?$/i.test(path)

/** Whether a folder is one that git keeps a repository in, whatever it is called, by the names in it. */
export const isGitFolder = (names: readonly string[]) =>
  names.includes('HEAD') && names.includes('config') && (names.includes('objects') || names.includes('commondir'))

/** What git needs of its settings to work in a repository, and nothing that can hold a credential or name a program. */
const kept: readonly RegExp[] = [
  /^core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|sparsecheckout|sparsecheckoutcone|worktree|longpaths|protectntfs|protecthfs)$/,
  /^extensions\.(?:objectformat|refstorage|worktreeconfig|partialclone|preciousobjects|compatobjectformat)$/,
  /^remote\.(?:.+\.)?(?:url|pushurl|fetch|push|tagopt|prune|promisor|partialclonefilter|mirror)$/,
  /^branch\.(?:.+\.)?(?:remote|merge|rebase|pushremote|description|autosetuprebase|autosetupmerge)$/,
  /^submodule\.(?:.+\.)?(?:url|active|path|branch|update|ignore|fetchrecursesubmodules)$/,
  /^(?:user\.(?:name|email)|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|init\.defaultbranch|merge\.conflictstyle|rebase\.\w+|fetch\.prune|lfs\.repositoryformatversion)$/,
]

/** The same settings without credentials, hooks and programs; null when there is nothing to leave out. What cannot be read is
 *  left out as a whole. Syntax: git-config(1). */
export function cleanGitConfig(text: string): string | null {
  const lines: string[] = []
  let section = ''
  let left = false
  for (const line of joined(text)) {
    if (/^\s*(?:[#;].*)?$/.test(line)) {
      // A comment can hold a token that was once a setting.
      left ||= line.trim() !== ''
      continue
    }
    const header = /^\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)$/.exec(line)
    const body = header === null ? line : (header[3] ?? '')
    if (header !== null) {
      const [, name = '', sub] = header
      section = sub === undefined ? name.toLowerCase() : `${name.toLowerCase()}.${sub}`
      lines.push(sub === undefined ? `[${name}]` : `[${name} "${withoutUser(sub)}"]`)
    }
    if (body.trim() === '') continue
    const setting = /^\s*([A-Za-z][\w-]*)\s*(?:=(.*))?$/.exec(body)
    const [, key = '', value] = setting ?? []
    if (setting === null || !kept.some((one) => one.test(`${section}.${key.toLowerCase()}`))) {
      left = true
      continue
    }
    const clean = value === undefined ? undefined : withoutUser(value)
    left ||= clean !== value
    lines.push(clean === undefined ? `\t${key}` : `\t${key} =${clean}`)
  }
  return left ? `${lines.join('\n')}\n` : null
}

/** A backslash at the end of a line carries a value on. */
const joined = (text: string) => text.replaceAll('\r\n', '\n').replaceAll(/\\\n/g, '').split('\n')

/** A name before the host can be a token, and so can a question after it; git itself needs neither over HTTP. */
const withoutUser = (url: string) =>
  url.replaceAll(/(https?|ftps?):\/\/[^\s/@"]*@/gi, '$1://').replaceAll(/((?:https?|ftps?):\/\/[^\s?#"]*)[?#][^\s"]*/gi, '$1')
