/** Who asks. */
export type Actor = { readonly kind: 'owner'; readonly name: string; readonly door: string }

/** What may be asked of the whole, beside the verbs of a session. */
export type Permission = 'read' | 'work' | 'administer'

/** The one place that says what an actor may do. */
export function may(actor: Actor, _permission: Permission): boolean {
  return actor.kind === 'owner'
}
