import type { NewEvent } from '@anchorhold/protocol/events'

/** What a session's log says of the files that its cell does not see. */
export const hiddenNotice = (paths: readonly string[]): NewEvent => ({
  type: 'notice',
  body: { level: 'info', code: 'files_hidden', message: `The repository filter hides ${listOf(paths)}` },
})

/** And of those that a repository tracks: what it holds of them is no secret from the cell. */
export const trackedNotice = (paths: readonly string[]): NewEvent => ({
  type: 'notice',
  body: {
    level: 'warning',
    code: 'files_tracked',
    message: `Git tracks files that the repository filter hides: ${listOf(paths)}. The repository's history holds them too, and the cell can read it. Where they are secrets, replace them, and take the files out of the repository`,
  },
})

/** And of those that should be hidden, and came too late for that. */
export const exposedNotice = (paths: readonly string[]): NewEvent => ({
  type: 'notice',
  body: {
    level: 'warning',
    code: 'files_exposed',
    message: `The repository filter will hide from the next start of the cell on, and not before: ${listOf(paths)}`,
  },
})

/** And that nobody looks for those. */
export const unwatchedNotice: NewEvent = {
  type: 'notice',
  body: {
    level: 'warning',
    code: 'files_unwatched',
    message:
      'The workspace is too large to be looked through after every turn: what the repository filter would hide and comes later is hidden from the next start of the cell on, and not told before',
  },
}

/** And that nobody can look for them any more. */
export const unseenNotice: NewEvent = {
  type: 'notice',
  body: {
    level: 'warning',
    code: 'files_unwatched',
    message:
      'The workspace cannot be looked through any more: what the repository filter would hide and comes from now on is not told, and where this stays so, the next start of the cell is refused and says why',
  },
}

/** As many names as a person would read. */
function listOf(paths: readonly string[]): string {
  const rest = paths.length - namesShown
  return `${paths.slice(0, namesShown).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}
const namesShown = 20
