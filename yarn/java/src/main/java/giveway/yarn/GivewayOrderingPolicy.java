package giveway.yarn;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FifoOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.IteratorSelector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.SchedulableEntity;

/**
 * Ordering policy of a CapacityScheduler leaf queue: the sidecar's ranking, or Hadoop's FIFO order while there is no ranking.
 *
 * <p>Set it as {@code yarn.scheduler.capacity.QUEUE.ordering-policy}. The applications themselves are stored by the superclass. A sorted copy is made whenever
 * the ranking or the set of applications has changed; the copy is immutable, so scheduling threads iterate over it without a lock.
 */
public class GivewayOrderingPolicy<S extends SchedulableEntity> extends FifoOrderingPolicy<S> {
  /** Incremented whenever an application is added or removed. */
  private final AtomicLong entitiesVersion = new AtomicLong();
  private volatile SortedEntities<S> cached;

  /** Applications in ranking order, with the inputs they were sorted from. */
  private static final class SortedEntities<S> {
    final Ranking ranking;
    final long entitiesVersion;
    final List<S> entities;

    SortedEntities(Ranking ranking, long entitiesVersion, List<S> entities) {
      this.ranking = ranking;
      this.entitiesVersion = entitiesVersion;
      this.entities = entities;
    }
  }

  @Override
  public Iterator<S> getAssignmentIterator(IteratorSelector selector) {
    List<S> sorted = sortedEntities();
    return sorted == null ? super.getAssignmentIterator(selector) : sorted.iterator();
  }

  @Override
  public Iterator<S> getPreemptionIterator() {
    List<S> sorted = sortedEntities();
    if (sorted == null) {
      return super.getPreemptionIterator();
    }
    List<S> reversed = new ArrayList<>(sorted);
    Collections.reverse(reversed);
    return reversed.iterator();
  }

  /** The applications in ranking order, or null if there is no ranking. */
  private List<S> sortedEntities() {
    try {
      Ranking ranking = GivewayPlugin.ranking();
      if (ranking == null) {
        cached = null;
        return null;
      }
      long version = entitiesVersion.get();
      SortedEntities<S> sorted = cached;
      if (sorted == null || sorted.ranking != ranking || sorted.entitiesVersion != version) {
        sorted = new SortedEntities<>(ranking, version, ranking.sort(getSchedulableEntities(), SchedulableEntity::getId));
        cached = sorted;
      }
      return sorted.entities;
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
      return null;
    }
  }

  @Override
  public void addSchedulableEntity(S entity) {
    super.addSchedulableEntity(entity);
    entitiesVersion.incrementAndGet();
    GivewayPlugin.applicationAdded(entity);
  }

  @Override
  public void addAllSchedulableEntities(Collection<S> entities) {
    super.addAllSchedulableEntities(entities);
    entitiesVersion.incrementAndGet();
    entities.forEach(GivewayPlugin::applicationAdded);
  }

  @Override
  public boolean removeSchedulableEntity(S entity) {
    boolean removed = super.removeSchedulableEntity(entity);
    entitiesVersion.incrementAndGet();
    GivewayPlugin.applicationRemoved(entity);
    return removed;
  }

  @Override
  public void containerAllocated(S entity, RMContainer container) {
    super.containerAllocated(entity, container);
    GivewayPlugin.containerAllocated(entity, container);
  }

  @Override
  public void containerReleased(S entity, RMContainer container) {
    super.containerReleased(entity, container);
    GivewayPlugin.containerReleased(entity, container);
  }

  @Override
  public void demandUpdated(S entity) {
    super.demandUpdated(entity);
    GivewayPlugin.demandUpdated(entity);
  }

  @Override
  public String getInfo() {
    return "GivewayOrderingPolicy";
  }

  @Override
  public String getConfigName() {
    return GivewayOrderingPolicy.class.getName();
  }
}
