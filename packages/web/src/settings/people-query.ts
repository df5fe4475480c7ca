import { queryOptions } from '@tanstack/react-query'
import { daemon } from '../daemon.ts'

export const peopleQuery = queryOptions({
  queryKey: ['people'],
  queryFn: async () => (await daemon.listUsers()).users,
  staleTime: 0,
})
