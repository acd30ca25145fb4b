package giveway.yarn;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** An immutable ranking of applications, as received from the sidecar. */
final class Ranking {
  static final Ranking EMPTY = new Ranking(Collections.emptyList());

  private final List<String> applicationIds;
  private final Map<String, Integer> positions;

  Ranking(List<String> applicationIds) {
    this.applicationIds = Collections.unmodifiableList(new ArrayList<>(applicationIds));
    positions = new HashMap<>(applicationIds.size() * 2);
    for (String id : applicationIds) {
      positions.putIfAbsent(id, positions.size());
    }
  }

  int size() {
    return positions.size();
  }

  /** First to be served first. */
  List<String> applicationIds() {
    return applicationIds;
  }

  /** The place of an application, {@link Integer#MAX_VALUE} if it is not ranked. */
  int position(String applicationId) {
    return positions.getOrDefault(applicationId, Integer.MAX_VALUE);
  }

  /**
   * Returns the entities in ranking order, as an immutable list. Entities that are not ranked come last, in the given order. Each position is looked up
   * once, before sorting, so concurrent changes of the entities cannot make the comparison inconsistent.
   */
  <S> List<S> sort(Collection<S> entities, Function<S, String> id) {
    List<Positioned<S>> positioned = new ArrayList<>(entities.size());
    for (S entity : entities) {
      Integer position = positions.get(id.apply(entity));
      positioned.add(new Positioned<>(entity, position == null ? Integer.MAX_VALUE : position));
    }
    positioned.sort(Comparator.comparingInt(item -> item.position));
    List<S> sorted = new ArrayList<>(positioned.size());
    for (Positioned<S> item : positioned) {
      sorted.add(item.entity);
    }
    return Collections.unmodifiableList(sorted);
  }

  private static final class Positioned<S> {
    final S entity;
    final int position;

    Positioned(S entity, int position) {
      this.entity = entity;
      this.position = position;
    }
  }
}
