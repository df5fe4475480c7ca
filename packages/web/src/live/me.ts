import type { Session } from '@anchorhold/protocol/sessions'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { daemon } from '../daemon.ts'

export const meQuery = queryOptions({ queryKey: ['me'], queryFn: () => daemon.whoAmI() })

/** Whether this device may change what concerns the whole house. The daemon decides that anew at every call: this only keeps what
 *  would be refused out of sight. */
export const useIsOwner = (): boolean => useQuery(meQuery).data?.user.role === 'owner'

/** The same for who else may see a session: owners of the house, and members those of their own. */
export function useMayShare(session: Session): boolean {
  const user = useQuery(meQuery).data?.user
  return user?.role === 'owner' || (user?.role === 'member' && user.name === session.owner)
}
