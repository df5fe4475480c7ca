const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** `now`, `4 min`, `3 h`, `2 d`, or the date: short, for a list. */
export function ago(at: number, now: number): string {
  const past = now - at
  if (past < minute) return 'now'
  if (past < hour) return `${Math.floor(past / minute)} min`
  if (past < day) return `${Math.floor(past / hour)} h`
  if (past < 7 * day) return `${Math.floor(past / day)} d`
  return new Date(at).toLocaleDateString(undefined, { day: 'numeric', month: 'short' })
}

export const clockTime = (at: number): string =>
  new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })

/** `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  const seconds = ms / 1000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 60) return `${Math.round(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
