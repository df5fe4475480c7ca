/** What is being written for each session and not sent yet. It lies on the device, so that it outlives the page; whoever shows it is
 *  told when it changes, since an upload adds to it behind a composer that was closed and opened again meanwhile. */
export interface Drafts {
  read(session: string): string
  write(session: string, text: string): void
  /** Forgets what this page alone has: the device may be somebody else's from here on. */
  letGo(): void
  subscribe(listener: () => void): () => void
}

const place = (session: string) => `anchorhold.draft.${session}`

export function drafts(storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>): Drafts {
  const listeners = new Set<() => void>()
  /** What a full device had no room for. */
  const unkept = new Map<string, string>()
  const tell = () => {
    for (const listener of listeners) listener()
  }
  return {
    read: (session) => unkept.get(session) ?? storage.getItem(place(session)) ?? '',
    write(session, text) {
      unkept.delete(session)
      try {
        if (text === '') storage.removeItem(place(session))
        else storage.setItem(place(session), text)
      } catch {
        unkept.set(session, text)
      }
      tell()
    },
    letGo() {
      unkept.clear()
      tell()
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
