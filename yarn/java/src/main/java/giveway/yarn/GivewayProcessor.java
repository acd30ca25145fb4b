package giveway.yarn;

import java.io.IOException;
import org.apache.hadoop.yarn.ams.ApplicationMasterServiceContext;
import org.apache.hadoop.yarn.ams.ApplicationMasterServiceProcessor;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;

/**
 * Reads progress and final status from the requests of application masters. Requests and responses are passed on unchanged.
 *
 * <p>Set it in {@code yarn.resourcemanager.application-master-service.processors}. It also starts the connection to the sidecar, because it is the only
 * plug-in class that receives the ResourceManager's context.
 */
public class GivewayProcessor implements ApplicationMasterServiceProcessor {
  private ApplicationMasterServiceProcessor next;
  private RMContext context;

  @Override
  public void init(ApplicationMasterServiceContext serviceContext, ApplicationMasterServiceProcessor nextProcessor) {
    next = nextProcessor;
    try {
      context = (RMContext) serviceContext;
      GivewayPlugin.start(context);
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
    }
  }

  @Override
  public void registerApplicationMaster(
      ApplicationAttemptId attempt, RegisterApplicationMasterRequest request, RegisterApplicationMasterResponse response)
      throws IOException, YarnException {
    next.registerApplicationMaster(attempt, request, response);
  }

  @Override
  public void allocate(ApplicationAttemptId attempt, AllocateRequest request, AllocateResponse response) throws YarnException {
    next.allocate(attempt, request, response);
    try {
      SchedulerApplicationAttempt application = ((AbstractYarnScheduler<?, ?>) context.getScheduler()).getApplicationAttempt(attempt);
      if (application != null) {
        GivewayPlugin.progressReported(application, request.getProgress());
      }
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
    }
  }

  @Override
  public void finishApplicationMaster(
      ApplicationAttemptId attempt, FinishApplicationMasterRequest request, FinishApplicationMasterResponse response) {
    GivewayPlugin.applicationMasterFinished(attempt.getApplicationId(), request.getFinalApplicationStatus());
    next.finishApplicationMaster(attempt, request, response);
  }
}
