type Shelf = Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>

export const ownerPlace = 'anchorhold.owner'
const asideFor = (user: string) => `anchorhold.of.${user}.`
const aside = 'anchorhold.of.'
/** What is known of the house, and not written by anybody: it is fetched anew. */
const seen = ['anchorhold.sessions'] as const

const names = (shelf: Shelf): string[] => Array.from({ length: shelf.length }, (_, index) => shelf.key(index) ?? '')

/** Forgets what was seen; what was written and not sent stays for whoever wrote it. */
export function dropSeen(shelf: Shelf): void {
  for (const name of seen) shelf.removeItem(name)
}

/** Gives the device to a user: what somebody else has written here is put aside until they come back, and is neither shown nor sent.
 *  Tells whether it was not theirs before. */
export function handTo(shelf: Shelf, user: string): boolean {
  const before = shelf.getItem(ownerPlace)
  if (before === user) return false
  const move = (from: string, to: string) => {
    const text = shelf.getItem(from) ?? ''
    // On a full device it is rather lost than shown to somebody else.
    shelf.removeItem(from)
    keep(shelf, to, text)
  }
  if (before !== null) {
    dropSeen(shelf)
    for (const name of names(shelf))
      if (name.startsWith('anchorhold.') && !name.startsWith(aside) && name !== ownerPlace) move(name, asideFor(before) + name)
  }
  // Also when whoever was in between has left nothing behind, not even their name.
  for (const name of names(shelf)) if (name.startsWith(asideFor(user))) move(name, name.slice(asideFor(user).length))
  keep(shelf, ownerPlace, user)
  return true
}

/** A device without room keeps nobody out. */
function keep(shelf: Shelf, name: string, text: string): void {
  try {
    shelf.setItem(name, text)
  } catch {}
}

/** Forgets all of whoever has the device now: they leave it on purpose. */
export function clearOwn(shelf: Shelf): void {
  for (const name of names(shelf)) if (!name.startsWith(aside)) shelf.removeItem(name)
}
